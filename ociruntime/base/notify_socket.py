"""Relay sd_notify(3) messages from a container to the service manager that started us.

The container has a separate socket, in a directory that is bind-mounted into it, and never sees the
host's socket.  Messages about the service's state are forwarded.  Messages that would control the
service manager (MAINPID, FDSTORE, NOTIFYACCESS) are dropped.
"""

from __future__ import annotations

import posix
import select

from ociruntime.base.errors import HostError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket as _socket
else:
    import _socket

DIRECTORY = "notify"  # in the state directory
NAME = "notify.sock"

READY = b"READY=1"
SAFE = (READY, b"RELOADING=1", b"STOPPING=1", b"WATCHDOG=1")
SAFE_VARIABLES = (b"STATUS=", b"ERRNO=", b"EXTEND_TIMEOUT_USEC=", b"MONOTONIC_USEC=")

LONGEST = 4096  # bytes of a message that systemd reads
SEND_SECONDS = 5.0
BARRIER_SECONDS = 30.0
O_PATH = 0o10000000


def make_directory(state_directory: str) -> None:
    """Create the directory of the notify socket; the directory is bind-mounted into the container.

    Raises HostError.
    """
    path = f"{state_directory}/{DIRECTORY}"
    try:
        posix.mkdir(path)
        posix.chmod(path, 0o755)  # regardless of the caller's umask
    except OSError as error:
        raise HostError(f'create directory "{path}"', error) from None


def host_address(value: bytes) -> bytes:
    """Convert the value of NOTIFY_SOCKET to a socket address.

    The address is a path, or NUL followed by an abstract name.  Raises UsageError unless ``value``
    begins with "/" or "@".
    """
    if value.startswith(b"@"):
        return b"\0" + value[1:]
    if value.startswith(b"/"):
        return value
    raise UsageError(
        f'NOTIFY_SOCKET="{value.decode(errors="replace")}" is neither an absolute path nor an'
        " abstract name, which begins with @",
        "unset it if no service manager expects notifications",
    )


def safe_lines(message: bytes) -> list[bytes]:
    """Return the lines of an sd_notify message that may be forwarded to the host's manager."""
    return [
        line
        for line in message.split(b"\n")
        if b"\0" not in line and (line in SAFE or line.startswith(SAFE_VARIABLES))
    ]


class NotifyRelay:
    """A relay from the container's notify socket to the host's; adds MAINPID to READY=1."""

    __slots__ = ("_host", "_own", "main_pid", "ready")

    def __init__(self, state_directory: str, notify_socket: bytes, main_pid: int) -> None:
        """Connect to the host's socket and bind the container's.

        ``notify_socket`` is the value of NOTIFY_SOCKET; ``main_pid`` is sent as MAINPID.  Raises
        UsageError if ``notify_socket`` is not a socket address, HostError if a socket cannot be
        connected or bound.
        """
        self.main_pid = main_pid
        self.ready = False  # True once READY=1 was received
        self._host = _connect(host_address(notify_socket))
        try:
            self._own = _bind(f"{state_directory}/{DIRECTORY}")
        except BaseException:
            self._host.close()
            raise

    def fileno(self) -> int:
        """Return a descriptor that is readable when there is a message to forward."""
        return self._own.fileno()

    def forward(self) -> bool:
        """Forward one pending message; return False if no message is pending.  Raises HostError."""
        try:
            # recv(2) closes descriptors in the message.  The sender of BARRIER=1 waits for that:
            # its earlier messages have then been read.
            message = self._own.recv(LONGEST, _socket.MSG_DONTWAIT)
        except OSError:
            return False
        lines = safe_lines(message)
        if READY in lines:
            lines.append(b"MAINPID=%d" % self.main_pid)
        if lines:
            self._tell(b"\n".join(lines))
        self.ready = self.ready or READY in lines
        return True

    def wait_ready(self, pidfd: int) -> None:
        """Forward messages until READY=1 or the exit of process ``pidfd``, then close the relay.

        ``pidfd`` is -1 if the process has already exited.  After READY=1, waits until the service
        manager has read all messages: it would ignore the rest once this process has exited.
        Raises HostError.
        """
        poll = select.poll()
        poll.register(self.fileno(), select.POLLIN)
        ended = pidfd < 0
        if not ended:
            poll.register(pidfd, select.POLLIN)
        try:
            while True:
                ended = ended or any(fd == pidfd for fd, _ in poll.poll())
                while self.forward():
                    if self.ready:
                        self._await_barrier()
                        return
                if ended:
                    return
        finally:
            self.close()

    def close(self) -> None:
        """Close both sockets."""
        self._own.close()
        self._host.close()

    def _await_barrier(self) -> None:
        """Wait until the service manager has read all messages (sd_notify_barrier(3))."""
        reader, writer = posix.pipe2(posix.O_CLOEXEC)
        try:
            self._tell(b"BARRIER=1", writer)
        finally:
            posix.close(writer)
        poll = select.poll()
        poll.register(reader, select.POLLHUP)
        poll.poll(BARRIER_SECONDS * 1000)
        posix.close(reader)

    def _tell(self, message: bytes, fd: int = -1) -> None:
        rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fd.to_bytes(4, "little", signed=True))
        try:
            self._host.sendmsg([message], [rights] if fd >= 0 else [], _socket.MSG_NOSIGNAL)
        except OSError as error:
            raise HostError("send a message to NOTIFY_SOCKET", error) from None


def _connect(address: bytes) -> _socket.socket:
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM | _socket.SOCK_CLOEXEC)
    sock.settimeout(SEND_SECONDS)
    try:
        sock.connect(address)
    except OSError as error:
        sock.close()
        path = address.replace(b"\0", b"@", 1).decode(errors="replace")
        raise HostError(
            f'connect to NOTIFY_SOCKET "{path}"',
            error,
            "unset it if no service manager expects notifications",
        ) from None
    return sock


def _bind(directory: str) -> _socket.socket:
    """Create the container's socket in ``directory``, bind it and return it.

    A socket's address is limited to 107 bytes, so it refers to the directory through
    /proc/self/fd.  Raises HostError.
    """
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM | _socket.SOCK_CLOEXEC)
    fd = -1
    try:
        fd = posix.open(directory, O_PATH | posix.O_DIRECTORY | posix.O_CLOEXEC)
        try:
            posix.unlink(NAME, dir_fd=fd)  # left behind by a failed `start`
        except FileNotFoundError:
            pass
        sock.bind(f"/proc/self/fd/{fd}/{NAME}")
        posix.chmod(f"/proc/self/fd/{fd}/{NAME}", 0o777)  # for any user of the container
    except OSError as error:
        sock.close()
        raise HostError(f'create socket "{directory}/{NAME}"', error) from None
    finally:
        if fd >= 0:
            posix.close(fd)
    return sock
