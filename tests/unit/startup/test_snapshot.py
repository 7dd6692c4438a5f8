"""Making a snapshot in the background, after a command has done its work."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from ociruntime.startup import snapshot


@pytest.mark.parametrize("error", [errno.ENOMEM, errno.EIO])
def test_snapshot_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    """The command has succeeded, and must not fail now; nothing is started in the background."""

    def inspect(path: str) -> None:
        raise OSError(error, path)

    def fork() -> int:
        raise AssertionError("a process was started")

    monkeypatch.setattr(snapshot, "inspect", inspect)
    monkeypatch.setattr(snapshot, "thawed", False)
    monkeypatch.setattr(snapshot, "location", lambda *_: f"{tmp_path}/.snapshot")
    monkeypatch.setattr("posix.fork", fork)
    snapshot.make_in_background()
