"""Lines of logs from the daemon."""

from __future__ import annotations

import pytest

from ociruntime.base.errors import RuntimeFailure
from ociruntime.manager.client.logs import frames

SENT = b"\1\0\0\0\3ab\n" + b"\2\0\0\0\0" + b"\1\0\0\1\0" + b"x" * 256


@pytest.mark.parametrize("size", [1, 4, 5, 7, 100, 1000])
def test_frames_in_pieces_of_any_size(size: int) -> None:
    pieces = [SENT[at : at + size] for at in range(0, len(SENT), size)]
    assert list(frames(pieces)) == [(1, b"ab\n"), (2, b""), (1, b"x" * 256)]


def test_truncated_frame() -> None:
    with pytest.raises(RuntimeFailure, match="within a line"):
        list(frames([SENT[:-1]]))
