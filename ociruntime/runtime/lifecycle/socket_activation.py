"""Socket activation: sockets that systemd has opened for the service (sd_listen_fds(3))."""

from __future__ import annotations

from ociruntime.base.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def activated(environ: Mapping[bytes, bytes], pid: int) -> tuple[int, str]:
    """Return the number of sockets from descriptor 3 on, and LISTEN_FDNAMES.

    None if LISTEN_PID is not ``pid``: they were meant for another process, whose environment was
    only inherited. Raises UsageError.
    """
    if environ.get(b"LISTEN_PID", b"").strip() != str(pid).encode():
        return 0, ""
    count = environ.get(b"LISTEN_FDS", b"")
    if not count.isdigit():
        raise UsageError(f"LISTEN_FDS={count.decode(errors='replace')}: not a number")
    names = environ.get(b"LISTEN_FDNAMES", b"")
    return int(count), names.decode("utf-8", "surrogateescape")
