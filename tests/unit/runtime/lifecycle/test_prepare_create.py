"""Errors for a bundle that cannot be prepared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ociruntime.base.errors import ConfigError
from ociruntime.base.log import Log
from ociruntime.runtime.lifecycle.context import Context, CreateOptions
from ociruntime.runtime.lifecycle.prepare_create import prepare

WRONG = {"ociVersion": 1, "hostname": 2, "root": {"path": "r"}}


@pytest.mark.parametrize("name", ["config.json", "other.json"])
def test_debug_lists_everything_that_is_wrong(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(json.dumps(WRONG))
    given = "" if name == "config.json" else str(tmp_path / name)
    for debug in (False, True):
        log = tmp_path / f"log-{debug}"
        context = Context("/nowhere", Log(str(log), "json", debug))
        with pytest.raises(ConfigError, match=r"^ociVersion: "):
            prepare(context, CreateOptions("c1", str(tmp_path), given))
        assert log.exists() == debug
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    found = [(line["level"], line["msg"]) for line in lines]
    ((level, message),) = [each for each in found if not each[1].startswith("phase: ")]
    assert (level, message.partition(": ")[0]) == ("debug", "hostname")
