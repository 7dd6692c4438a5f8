"""The daemon's socket: made, or taken over from the service manager; and telling that one."""

from __future__ import annotations

import errno
import grp
import os
import socket

from ociruntime.base.errors import HostError, UsageError
from ociruntime.base.stream_socket import PATH_LIMIT
from ociruntime.base.trusted import check_file, check_parent, make_directory

MODE = 0o660
_FIRST = 3  # descriptor of those that are handed over (sd_listen_fds(3))
_BACKLOG = 128
_DIRECTORY = "directory of the socket"


def listen(path: str, group: str) -> socket.socket:
    """The socket, listening, for root and ``group``; that of a daemon which was killed goes.

    Raises UsageError: no such group, or no path; HostError, also if somebody listens there.
    """
    group_id = _group_id(group)
    if len(os.fsencode(path)) > PATH_LIMIT:
        raise UsageError(f"--socket: {path} is too long", f"{PATH_LIMIT} bytes at most")
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _make_parent(path)
        _remove_dead(path)
        mask = os.umask(0o777 & ~MODE)
        try:
            made.bind(path)
        finally:
            os.umask(mask)
        os.chown(path, 0, group_id)
        made.listen(_BACKLOG)
    except HostError:
        made.close()
        raise
    except OSError as error:
        made.close()
        raise HostError(f"listen at {path}", error) from None
    return made


def _group_id(group: str) -> int:
    if group.isascii() and group.isdigit():
        return int(group)
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        raise UsageError(f'--group: there is no group "{group}"') from None


def _make_parent(path: str) -> None:
    """Make the socket's directory, if need be.  Raises HostError if others may exchange it."""
    path = os.path.join(os.getcwd(), path)
    check_parent(path, _DIRECTORY)
    parent = os.path.dirname(path)
    if not os.path.isdir(parent):
        make_directory(parent, 0o755, _DIRECTORY)
    check_file(path, "socket")


def _remove_dead(path: str) -> None:
    """Raises OSError, also if it is no socket or somebody listens."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
        try:
            trial.connect(path)
        except FileNotFoundError:
            return
        except ConnectionRefusedError:
            os.unlink(path)
            return
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


def activated() -> socket.socket | None:
    """The socket that systemd has opened for us, if it has.  Raises UsageError."""
    if os.environ.pop("LISTEN_PID", "") != str(os.getpid()):
        return None
    count = os.environ.pop("LISTEN_FDS", "")
    os.environ.pop("LISTEN_FDNAMES", None)
    if count != "1":
        raise UsageError(f"LISTEN_FDS={count}: there is to be one socket")
    os.set_inheritable(_FIRST, False)
    given = socket.socket(fileno=_FIRST)
    if given.family != socket.AF_UNIX or given.type != socket.SOCK_STREAM:
        raise UsageError("the socket that is handed over is no Unix stream socket")
    return given


class Notifier:
    """Tells the service manager, if there is one (sd_notify(3)); failures do not matter.

    Its address leaves the environment: what a container says of itself is not about us.
    """

    def __init__(self) -> None:
        self._address = os.environ.pop("NOTIFY_SOCKET", "")

    def __call__(self, state: str) -> None:
        if self._address[:1] not in ("/", "@"):
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            try:
                sock.connect(self._name())
                sock.send(state.encode())
            except OSError:
                return

    def _name(self) -> str:
        return f"\0{self._address[1:]}" if self._address[0] == "@" else self._address
