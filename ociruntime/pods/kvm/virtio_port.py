"""The host's end of an app's virtio port, a Unix socket; ``csrc/guest/guest.h`` has the frames.

All of it runs in children of the monitor, because the machine may stall.
"""

from __future__ import annotations

import os
import socket
from struct import pack, unpack
from time import monotonic

from ociruntime.base.errors import HostError, PodError
from ociruntime.base.process import close_inherited_on_exec

PROGRAM = __file__.rpartition("/")[0] + "/_guest"
START, RUNNING, FAILED, END = b"s", b"r", b"f", b"d"
HEAD = "<cH"  # kind and size
LARGEST = 3 + 4096  # maximum size of a frame in bytes
BOOT_SECONDS = 180.0  # timeout of the guest's boot
END_SECONDS = 20.0  # timeout of killing an app's processes
GONE = "the virtual machine has exited"
_FIRST_FREE = 10  # above the descriptors passed to the proxy


def start_app(path: str, streams: list[int]) -> int:
    """Start the app of the port at ``path``; return the pid of its proxy.

    ``streams`` are the app's stdin, stdout and stderr, -1 for /dev/null.  Raises PodError with the
    guest's error, HostError.
    """
    port = _connect(path, BOOT_SECONDS)
    deadline = monotonic() + BOOT_SECONDS
    try:
        _send(port, START, b"")
        kind, data = _receive(port, deadline)
        if kind == FAILED:
            raise PodError(data.decode(errors="replace"))
        if kind != RUNNING:
            raise PodError(f"start the app: unexpected reply {kind!r} from the virtual machine")
        port.settimeout(None)
        return _spawn(port.fileno(), streams)
    finally:
        port.close()


def end_app(path: str) -> None:
    """Kill the processes of the app of the port at ``path``, and wait.  Raises PodError."""
    try:
        port = _connect(path, END_SECONDS)
    except PodError:
        return  # the machine has exited, and its apps with it
    mark = os.urandom(16)
    deadline = monotonic() + END_SECONDS
    try:
        port.sendall(bytes(LARGEST))  # complete a frame that the proxy may have left unfinished
        _send(port, END, mark)
        received = b""
        while mark not in received:
            part = _part(port, LARGEST, deadline)
            if not part:
                return
            received = received[-len(mark) :] + part
    except OSError as error:
        raise PodError(f"stop the app in the virtual machine: {error}") from None
    finally:
        port.close()


def power_off(path: str) -> None:
    """Make the guest power off, through the machine's port at ``path``; do not wait."""
    try:
        port = _connect(path, 0.0)
    except PodError:
        return
    try:
        port.send(b"p")
    except OSError:
        return
    finally:
        port.detach()  # keep it open: the guest must read the byte before it sees the hangup


def _connect(path: str, seconds: float) -> socket.socket:
    port = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    port.settimeout(seconds)
    try:
        port.connect(path)
    except OSError:
        port.close()
        raise PodError(GONE) from None
    return port


def _send(port: socket.socket, kind: bytes, data: bytes) -> None:
    try:
        port.sendall(pack(HEAD, kind, len(data)) + data)
    except OSError:
        raise PodError(GONE) from None


def _receive(port: socket.socket, deadline: float) -> tuple[bytes, bytes]:
    """Read exactly one frame, because later bytes are for the proxy.  Raises PodError."""
    kind, size = unpack(HEAD, _exactly(port, 3, deadline))
    return kind, _exactly(port, size, deadline)


def _part(port: socket.socket, size: int, deadline: float) -> bytes:
    """Receive some bytes, b"" at the end.  Raises OSError, after ``deadline`` TimeoutError.

    The guest chooses what it sends, and how slowly.
    """
    left = deadline - monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    port.settimeout(left)
    return port.recv(size)


def _exactly(port: socket.socket, size: int, deadline: float) -> bytes:
    data = b""
    while len(data) < size:
        try:
            part = _part(port, size - len(data), deadline)
        except TimeoutError:
            raise PodError(
                f"the virtual machine has not started within {BOOT_SECONDS:.0f} s"
            ) from None
        except OSError:
            part = b""
        if not part:
            raise PodError(GONE)
        data += part
    return data


def _spawn(port: int, streams: list[int]) -> int:
    import fcntl

    fds = [*streams, port]
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE) if fd >= 0 else -1 for fd in fds]
    close_inherited_on_exec()
    actions: list[tuple[int, ...] | tuple[int, int, str, int, int]] = [
        (os.POSIX_SPAWN_DUP2, fd, number)
        if fd >= 0
        else (os.POSIX_SPAWN_OPEN, number, "/dev/null", os.O_RDWR, 0)
        for number, fd in enumerate(high)
    ]
    try:
        return os.posix_spawn(PROGRAM, ["ocipod-app"], {}, file_actions=actions, setsid=True)
    except OSError as error:
        raise HostError(f"start {PROGRAM}", error) from None
