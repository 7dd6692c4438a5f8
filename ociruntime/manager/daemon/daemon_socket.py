"""The daemon's socket, created here or passed by systemd, and sd_notify(3) messages."""

from __future__ import annotations

import errno
import grp
import os
import socket

from ociruntime.base.errors import HostError, UsageError
from ociruntime.base.stream_socket import PATH_LIMIT
from ociruntime.base.trusted_directories import check_file, check_parent, make_directory

MODE = 0o660
_FIRST = 3  # the first descriptor that systemd passes: SD_LISTEN_FDS_START, sd_listen_fds(3)
_BACKLOG = 128
_DIRECTORY = "directory of the socket"


def listen(path: str, group: str) -> socket.socket:
    """Create the Unix socket ``path`` for root and ``group``, and listen on it.

    Replaces a stale socket.  Raises UsageError for an unknown group or a path that is too long,
    HostError if another process is listening at ``path`` or if the socket cannot be created.
    """
    group_id = _group_id(group)
    if len(os.fsencode(path)) > PATH_LIMIT:
        hint = f"use a path of at most {PATH_LIMIT} bytes"
        raise UsageError(f'--socket: path too long: "{path}"', hint)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _make_parent(path)
        _remove_stale(path)
        mask = os.umask(0o777 & ~MODE)
        try:
            sock.bind(path)
        finally:
            os.umask(mask)
        os.chown(path, 0, group_id)
        sock.listen(_BACKLOG)
    except HostError:
        sock.close()
        raise
    except OSError as error:
        sock.close()
        raise HostError(f'listen on "{path}"', error) from None
    return sock


def _group_id(group: str) -> int:
    if group.isascii() and group.isdigit():
        return int(group)
    if group == "root":
        return 0
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        hint = f"create it with: groupadd {group}"
        raise UsageError(f'--group: group "{group}" not found', hint) from None


def _make_parent(path: str) -> None:
    """Create the directory of the socket ``path``, if it is missing.

    Raises HostError if users other than root can replace the directory or the socket.
    """
    path = os.path.join(os.getcwd(), path)
    check_parent(path, _DIRECTORY)
    parent = os.path.dirname(path)
    if not os.path.isdir(parent):
        make_directory(parent, 0o755, _DIRECTORY)
    check_file(path, "socket")


def _remove_stale(path: str) -> None:
    """Remove the socket at ``path`` if no process is listening on it.

    Raises OSError if the file is not a socket, or if a process is listening on it.
    """
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
    """Return the listening socket that systemd has passed in LISTEN_FDS; None if there is none.

    Raises UsageError if systemd has passed several sockets, or a socket that is not a Unix stream
    socket.  See sd_listen_fds(3).
    """
    if os.environ.pop("LISTEN_PID", "") != str(os.getpid()):
        return None
    count = os.environ.pop("LISTEN_FDS", "")
    os.environ.pop("LISTEN_FDNAMES", None)
    if count != "1":
        raise UsageError(
            f"use systemd's sockets: LISTEN_FDS={count}: exactly one socket is required",
            "use one ListenStream= in ocid.socket",
        )
    os.set_inheritable(_FIRST, False)
    passed = socket.socket(fileno=_FIRST)
    if passed.family != socket.AF_UNIX or passed.type != socket.SOCK_STREAM:
        raise UsageError(
            "use systemd's socket: it is not a Unix stream socket", "use ListenStream=PATH"
        )
    return passed


class Notifier:
    """Send states such as ``READY=1`` to systemd (sd_notify(3)); ignore errors.

    Removes NOTIFY_SOCKET from the environment, so that no container can send states to systemd.
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
