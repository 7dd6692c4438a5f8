"""The limits of `update` from standard input."""

from __future__ import annotations

import os

import pytest

from ociruntime.base.errors import UsageError
from ociruntime.runtime.cli import update as module


@pytest.mark.parametrize(
    ("size", "piece", "fits"), [(100, 1, True), (100, 100, True), (101, 7, False)]
)
def test_largest_document(
    monkeypatch: pytest.MonkeyPatch, size: int, piece: int, fits: bool
) -> None:
    """The bytes count, however few of them a read(2) returns."""
    data = os.urandom(size)
    rest = [data[start : start + piece] for start in range(0, size, piece)]
    monkeypatch.setattr(module, "LARGEST", 100)
    monkeypatch.setattr("posix.read", lambda fd, most: rest.pop(0) if rest else b"")
    if fits:
        assert module._standard_input() == data
    else:
        with pytest.raises(UsageError, match="--resources -: "):
            module._standard_input()
