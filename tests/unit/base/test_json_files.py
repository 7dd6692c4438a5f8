"""JSON files of a pod."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ociruntime.base import json_files
from ociruntime.base.errors import HostError, PodError


def test_there_and_back(tmp_path: Path) -> None:
    value = {"a": [1, None, True, {"b": "ü\n"}], "c": 1.5}
    path = tmp_path / "record"
    json_files.replace(str(path), value)
    assert json.loads(path.read_text()) == value == json_files.read(str(path))
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("text", ["", "{", "[]", "1", '{"a":1} x', '{"a"}', "\xff", "nan"])
def test_what_is_no_object(text: str) -> None:
    with pytest.raises(PodError, match=r"^it: "):
        json_files.parse(text.encode("latin-1"), "it")


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(HostError):
        json_files.read(str(tmp_path / "no"))
    with pytest.raises(HostError):
        json_files.replace(str(tmp_path / "no" / "file"), {})


def test_times() -> None:
    assert json_files.time_text(1_700_000_000_000_000_042) == "2023-11-14T22:13:20.000000042Z"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", json_files.now())
