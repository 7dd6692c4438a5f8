"""Check the options of a call (not the configuration), before anything is created."""

from __future__ import annotations

import posix
from fcntl import F_GETFD, FD_CLOEXEC, fcntl

from ociruntime.base.errors import ConfigError, HostError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ociruntime.runtime.plan.facts import Request
    from ociruntime.runtime.spec.config_types import Process


def take_descriptors(request: Request, alone: bool) -> None:
    """Determine the descriptors to pass on: systemd's sockets, then ``preserve_fds``.

    The sockets are passed on only if this process was started with them for a container
    (``alone``); all must be open.  Of ``preserve_fds``, open ones are passed on, as with runc and
    crun. All must be the caller's: an inherited descriptor never has the close-on-exec flag, while
    those opened by the interpreter and by us always have it. Raises UsageError.
    """
    sockets = 0
    if alone and b"LISTEN_FDS" in posix.environ:
        sockets, request.listen_names = activated(posix.environ, posix.getpid())
        request.listen_fds = sockets
        for fd in range(3, 3 + sockets):
            if not _is_inherited(fd):
                raise UsageError(
                    f"LISTEN_FDS={sockets}: descriptor {fd} is not open",
                    f"descriptors 3 to {2 + sockets} are to be passed on",
                )
    if request.preserve_fds:
        occupy_closed(request.preserve_fds, sockets)


def _is_inherited(fd: int) -> bool:
    try:
        return not fcntl(fd, F_GETFD) & FD_CLOEXEC
    except OSError:
        return False


def occupy_closed(count: int, sockets: int) -> None:
    """Open placeholders for closed descriptors of those to pass on, so that ours are not passed on.

    The descriptors are ``sockets`` from 3 on, then ``count`` further ones.  The placeholders are
    closed when the executor is executed.  Raises HostError.
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


def check_terminal(process: Process | None, console_socket: str, detach: bool) -> None:
    """Check that a terminal has a receiver. Raises ConfigError, UsageError."""
    terminal = bool(process and process.get("terminal"))
    if terminal and detach and not console_socket:
        raise ConfigError(
            "process.terminal",
            "cannot allocate tty if ociruntime will detach without setting console socket",
            "set process.terminal to false or pass --console-socket",
        )
    if terminal and not detach:
        from ociruntime.base.terminal import find_terminal

        find_terminal()  # refuses where there is none, before anything is made
    if console_socket and not (terminal and detach):
        raise UsageError(
            "cannot use console socket if ociruntime will not detach or allocate tty",
            "--console-socket needs process.terminal true and a detached container",
        )


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
