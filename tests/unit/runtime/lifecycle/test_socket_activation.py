"""The owner of the sockets, by the environment."""

from __future__ import annotations

import pytest

from ociruntime.base.errors import UsageError
from ociruntime.runtime.lifecycle.passed_descriptors import activated


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({b"LISTEN_PID": b"7", b"LISTEN_FDS": b"2"}, (2, "")),
        ({b"LISTEN_PID": b"7", b"LISTEN_FDS": b"1", b"LISTEN_FDNAMES": b"web"}, (1, "web")),
        ({b"LISTEN_PID": b"8", b"LISTEN_FDS": b"2"}, (0, "")),
        ({b"LISTEN_FDS": b"2"}, (0, "")),
        ({b"LISTEN_PID": b"70", b"LISTEN_FDS": b"x"}, (0, "")),
    ],
)
def test_only_with_our_pid(environ: dict[bytes, bytes], found: tuple[int, str]) -> None:
    assert activated(environ, 7) == found


@pytest.mark.parametrize("count", [b"", b"x", b"-1", b"1.0"])
def test_no_number(count: bytes) -> None:
    with pytest.raises(UsageError, match="LISTEN_FDS"):
        activated({b"LISTEN_PID": b"7", b"LISTEN_FDS": count}, 7)
