"""Choose the descriptors to pass to a container: systemd's sockets, and those of --preserve-fds."""

from __future__ import annotations

import posix
from collections.abc import Mapping
from fcntl import F_GETFD, FD_CLOEXEC, fcntl

from ociruntime.base.errors import HostError, UsageError
from ociruntime.runtime.plan.facts import Request


def take_descriptors(request: Request, alone: bool) -> None:
    """Set systemd's sockets in ``request``, and reserve the numbers of ``preserve_fds``.

    The sockets are passed only if this process is ``alone`` (see Context), and all must be open.
    Closed descriptors in the range of ``preserve_fds`` are skipped, as in runc and crun.  A
    descriptor without the close-on-exec flag comes from the caller; this process sets the flag for
    all that it opens.  Raises UsageError if LISTEN_FDS is invalid or one of its sockets is closed,
    and HostError.
    """
    sockets = 0
    if alone and b"LISTEN_FDS" in posix.environ:
        sockets, request.listen_names = activated(posix.environ, posix.getpid())
        request.listen_fds = sockets
        for fd in range(3, 3 + sockets):
            if not _is_inherited(fd):
                raise UsageError(
                    f"LISTEN_FDS={sockets}: descriptor {fd} is not open",
                    f"open descriptors 3 to {2 + sockets}, or unset LISTEN_FDS",
                )
    if request.preserve_fds:
        occupy_closed(request.preserve_fds, sockets)


def _is_inherited(fd: int) -> bool:
    """Return whether ``fd`` is open and inherited.

    An inherited descriptor does not have the close-on-exec flag.
    """
    try:
        return not fcntl(fd, F_GETFD) & FD_CLOEXEC
    except OSError:
        return False


def occupy_closed(count: int, sockets: int) -> None:
    """Open /dev/null at each closed descriptor from 3 to ``3 + sockets + count - 1``.

    Descriptors with these numbers are passed to the container, so no file that is opened later may
    get one of them.  The executor does not inherit the placeholders.  Raises HostError.
    """
    end = 3 + sockets + count
    try:
        while (fd := posix.open("/dev/null", posix.O_PATH | posix.O_CLOEXEC)) < end:
            continue
    except OSError as error:
        raise HostError(
            f"--preserve-fds {count}: open placeholders for closed descriptors", error
        ) from None
    posix.close(fd)


def activated(environ: Mapping[bytes, bytes], pid: int) -> tuple[int, str]:
    """Return how many sockets systemd has passed to process ``pid``, and their names.

    The sockets are the descriptors starting with 3; the names are the text of LISTEN_FDNAMES.
    Returns (0, "") if LISTEN_PID is not ``pid``, because the variables are then meant for another
    process.  Raises UsageError if LISTEN_FDS is invalid.
    """
    if environ.get(b"LISTEN_PID", b"").strip() != str(pid).encode():
        return 0, ""
    count = environ.get(b"LISTEN_FDS", b"")
    if not count.isdigit():
        raise UsageError(f"LISTEN_FDS={count.decode(errors='replace')}: must be a number")
    names = environ.get(b"LISTEN_FDNAMES", b"")
    return int(count), names.decode("utf-8", "surrogateescape")
