"""The host's end of an app's port: frames as ``csrc/guest/guest.h`` describes them.

All of it runs in children of the monitor: the machine may take its time.
"""

from __future__ import annotations

import posix
from struct import pack, unpack

from ociruntime.base.errors import HostError, PodError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket as _socket
else:
    import _socket

PROGRAM = __file__.rpartition("/")[0] + "/_guest"
START, RUNNING, FAILED, END = b"s", b"r", b"f", b"d"
HEAD = "<cH"  # kind and size
LARGEST = 3 + 4096  # bytes of a frame
BOOT_SECONDS = 180.0
END_SECONDS = 20.0
GONE = "the virtual machine has ended"
_FIRST_FREE = 10  # above the descriptors that the proxy is given


def start_app(path: str, streams: list[int]) -> int:
    """Start the app of the port at ``path``; the pid of its proxy, which ends as the app does.

    ``streams`` become the app's, -1 is the null device.  Raises PodError with the guest's words.
    """
    port = _connect(path, BOOT_SECONDS)
    try:
        _send(port, START, b"")
        kind, data = _receive(port)
        if kind == FAILED:
            raise PodError(data.decode(errors="replace"))
        if kind != RUNNING:
            raise PodError(f"the virtual machine said {kind!r} instead of starting the app")
        port.settimeout(None)
        return _spawn(port.fileno(), streams)
    finally:
        port.close()


def end_app(path: str) -> None:
    """Make sure that nothing of the app runs any more.  Raises PodError."""
    try:
        port = _connect(path, END_SECONDS)
    except PodError:
        return  # with the machine its apps have ended
    mark = posix.urandom(16)
    try:
        port.sendall(bytes(LARGEST))  # whatever was cut off when the proxy ended is complete
        _send(port, END, mark)
        said = b""
        while mark not in said:
            part = port.recv(LARGEST)
            if not part:
                return
            said = said[-len(mark) :] + part
    except OSError as error:
        raise PodError(f"the virtual machine does not end the app: {error}") from None
    finally:
        port.close()


def power_off(path: str) -> None:
    """Ask the guest to write what is not written yet, and to end the machine."""
    try:
        port = _connect(path, 0.0)
    except PodError:
        return
    try:
        port.send(b"p")
    except OSError:
        return
    finally:
        port.detach()  # the guest is to see the byte before the end


def _connect(path: str, seconds: float) -> _socket.socket:
    port = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    port.settimeout(seconds)
    try:
        port.connect(path)
    except OSError:
        port.close()
        raise PodError(GONE) from None
    return port


def _send(port: _socket.socket, kind: bytes, data: bytes) -> None:
    try:
        port.sendall(pack(HEAD, kind, len(data)) + data)
    except OSError:
        raise PodError(GONE) from None


def _receive(port: _socket.socket) -> tuple[bytes, bytes]:
    """One frame and not a byte more: what follows is for the proxy."""
    kind, size = unpack(HEAD, _exactly(port, 3))
    return kind, _exactly(port, size)


def _exactly(port: _socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        try:
            part = port.recv(size - len(data))
        except TimeoutError:
            raise PodError(f"the virtual machine has not started in {BOOT_SECONDS:.0f} s") from None
        except OSError:
            part = b""
        if not part:
            raise PodError(GONE)
        data += part
    return data


def _spawn(port: int, streams: list[int]) -> int:
    import fcntl

    wanted = [*streams, port]
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE) if fd >= 0 else -1 for fd in wanted]
    actions: list[tuple[int, ...] | tuple[int, int, str, int, int]] = [
        (posix.POSIX_SPAWN_DUP2, fd, number)
        if fd >= 0
        else (posix.POSIX_SPAWN_OPEN, number, "/dev/null", posix.O_RDWR, 0)
        for number, fd in enumerate(high)
    ]
    try:
        return posix.posix_spawn(PROGRAM, ["ocipod-app"], {}, file_actions=actions, setsid=True)
    except OSError as error:
        raise HostError(f"start {PROGRAM}", error) from None
