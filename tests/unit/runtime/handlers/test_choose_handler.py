"""Handlers of other packages, found by their entry points."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.handlers.choose_handler import handled, handler_name
from ociruntime.runtime.spec.annotations import HANDLER, WASM_VARIANT
from tests.support.bundle import base_config

CODE = """
def handle(config, rootfs):
    process = config["process"]
    return {**config, "process": {**process, "args": ["/run", rootfs, *process["args"]]}}

def spoil(config, rootfs):
    return {**config, "process": {**config["process"], "cwd": 5}}
"""
POINTS = """[ociruntime.runtime.handlers]
mine = handler_of_a_test:handle
spoiling = handler_of_a_test:spoil
missing = handler_of_a_test:nothing
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "handler_of_a_test.py").write_text(CODE)
    info = tmp_path / "handler_of_a_test-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: handler-of-a-test\nVersion: 1\n")
    (info / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))


def asking(name: str) -> Any:  # noqa: ANN401
    return {**base_config(("a", "b")), "annotations": {HANDLER: name}}


def test_a_package_brings_a_handler(package: None) -> None:
    given = asking("mine")
    assert handled(given, "/root")["process"]["args"] == ["/run", "/root", "a", "b"]
    assert given["process"]["args"] == ["a", "b"]


def test_its_result_is_checked(package: None) -> None:
    with pytest.raises(ConfigError, match=r"process\.cwd"):
        handled(asking("spoiling"), "/root")


def test_what_cannot_be_loaded_is_named(package: None) -> None:
    with pytest.raises(ConfigError, match=r"load the handler .*handler_of_a_test:nothing\): "):
        handled(asking("missing"), "/root")
    with pytest.raises(ConfigError, match="available: mine, missing, native, spoiling, wasm"):
        handled(asking("other"), "/root")


def test_native_changes_nothing() -> None:
    given = asking("native")
    assert handled(given, "/root") is given


def test_names() -> None:
    assert handler_name({}) == ("native", "")
    assert handler_name({HANDLER: "x", WASM_VARIANT: "compat"}) == ("x", HANDLER)
    assert handler_name({WASM_VARIANT: "compat"}) == ("wasm", WASM_VARIANT)
    assert handler_name({WASM_VARIANT: "other"}) == ("native", "")
