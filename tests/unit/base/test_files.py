"""Small files on the host: atomic, and nothing left of an attempt that failed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ociruntime.base.files import replace_file, write_new


def interrupted(*_: object, **__: object) -> int:
    raise KeyboardInterrupt


@pytest.mark.parametrize("call", ["write", "fsync", "rename"])
def test_an_interrupted_replacement_leaves_the_old_file_alone(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_new(str(path), b"old")
    monkeypatch.setattr(f"posix.{call}", interrupted)
    with pytest.raises(KeyboardInterrupt):
        replace_file(str(path), b"new", lasting=True)
    assert os.listdir(tmp_path) == ["file"]
    assert path.read_bytes() == b"old"
