"""Start and kill apps in a virtual machine through its virtio ports, Unix sockets on the host.

``csrc/guest/guest.h`` defines the messages (frames) to and from the guest agent.  The functions
run in children of the monitor, because they may wait for a stalled machine.  Only ``power_off``
does not wait, and runs in the monitor itself.
"""

from __future__ import annotations

import os
import socket
from struct import pack, unpack
from time import monotonic

from ociruntime.base.errors import HostError, PodError, reason
from ociruntime.base.process import close_inherited_on_exec

PROGRAM = __file__.rpartition("/")[0] + "/_guest"
START, RUNNING, FAILED, END = b"s", b"r", b"f", b"d"
HEAD = "<cH"  # a frame's kind and size
LARGEST = 3 + 4096  # maximum size of a frame in bytes
BOOT_TIMEOUT = 180.0  # seconds for the guest to boot
END_TIMEOUT = 20.0  # seconds for the guest agent to kill an app's processes
GONE = "the virtual machine has exited"
_FIRST_FREE = 10  # above the descriptors passed to the proxy


def start_app(path: str, streams: list[int]) -> int:
    """Start an app in the guest; return the pid of its proxy process on the host.

    ``path`` is the socket of the app's virtio port, ``streams`` are the descriptors of its stdin,
    stdout and stderr, -1 for /dev/null.  Raises PodError if the guest agent reports an error or
    does not reply in time, HostError if the proxy cannot be started.
    """
    port = _connect(path, BOOT_TIMEOUT)
    deadline = monotonic() + BOOT_TIMEOUT
    try:
        _send(port, START, b"")
        kind, data = _receive(port, deadline)
        if kind == FAILED:
            raise PodError(data.decode(errors="replace"))
        if kind != RUNNING:
            raise PodError(
                "start an app in the virtual machine: "
                f"unexpected reply {kind!r} from the guest agent"
            )
        port.settimeout(None)
        return _spawn(port.fileno(), streams)
    finally:
        port.close()


def end_app(path: str) -> None:
    """Kill the processes of an app in the guest, and wait until they have exited.

    ``path`` is the socket of the app's virtio port.  Does nothing if the machine has already
    exited.  Raises PodError if the guest agent does not confirm within 20 seconds that the
    processes have exited.
    """
    try:
        port = _connect(path, END_TIMEOUT)
    except PodError:
        return  # the machine has exited, and its apps with it
    mark = os.urandom(16)
    deadline = monotonic() + END_TIMEOUT
    try:
        port.sendall(
            bytes(LARGEST)
        )  # complete the frame that the proxy may have begun: the agent skips zeros
        port.sendall(pack(HEAD, END, len(mark)) + mark)
        received = b""
        while mark not in received:
            part = _part(port, LARGEST, deadline)
            if not part:
                return
            received = received[-len(mark) :] + part
    except OSError as error:
        if isinstance(error, BrokenPipeError | ConnectionResetError):
            return  # the machine has exited meanwhile
        raise PodError(f"stop the app in the virtual machine: {reason(error)}") from None
    finally:
        port.close()


def power_off(path: str) -> None:
    """Tell the guest agent to power off the machine, without waiting for it.

    ``path`` is the socket of the agent's virtio port.  Does nothing if the machine has already
    exited.
    """
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
    """Return a connection to the virtio port whose socket is ``path``.

    Operations on the connection time out after ``seconds``.  Raises PodError if the machine has
    exited.
    """
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
    """Receive a frame from the guest agent; return its (kind, data).

    Reads no byte beyond the frame, because the app's proxy reads the rest.  Raises PodError if the
    machine has exited, or if ``deadline`` (monotonic clock) has passed.
    """
    kind, size = unpack(HEAD, _exactly(port, 3, deadline))
    return kind, _exactly(port, size, deadline)


def _part(port: socket.socket, size: int, deadline: float) -> bytes:
    """Receive up to ``size`` bytes; return b"" at the end of the stream.

    Raises TimeoutError once ``deadline`` (monotonic clock) has passed, another OSError if recv(2)
    fails.  The deadline applies to all calls together.  With a timeout for each call, a hostile
    guest could send one byte at a time for ever.
    """
    remaining = deadline - monotonic()
    if remaining <= 0:
        raise TimeoutError("timed out")
    port.settimeout(remaining)
    return port.recv(size)


def _exactly(port: socket.socket, size: int, deadline: float) -> bytes:
    data = b""
    while len(data) < size:
        try:
            part = _part(port, size - len(data), deadline)
        except TimeoutError:
            raise PodError(
                f"start an app in the virtual machine: timeout after {BOOT_TIMEOUT:.0f} s: "
                "the guest has not booted"
            ) from None
        except OSError:
            part = b""
        if not part:
            raise PodError(GONE)
        data += part
    return data


def _spawn(port: int, streams: list[int]) -> int:
    """Start the proxy process that relays between ``streams`` and ``port``; return its pid.

    ``streams`` are the descriptors of the app's stdin, stdout and stderr, -1 for /dev/null;
    ``port`` is the descriptor of the connection to its virtio port.  Raises HostError if the
    process cannot be started.
    """
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
        raise HostError(f'start "{PROGRAM}"', error) from None
