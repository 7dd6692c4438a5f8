"""Foreground mode: forward signals to a container, wait for it, and return its exit status."""

from __future__ import annotations

import posix
import select
from struct import Struct

from ociruntime.base.errors import HostError, InternalError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Iterable

    from ociruntime.base.notify_socket import NotifyRelay
    from ociruntime.base.terminal_relay import Relay
else:
    import _signal

# Signals that are not queued.  KILL and STOP cannot be blocked.  A fault such as SEGV must end this
# program.  TTIN and TTOU stop a background job that uses its terminal: a program that blocks them
# gets EIO or writes to the terminal of another job.  URG is ignored by default.
UNTOUCHED = frozenset(
    (
        *(_signal.SIGKILL, _signal.SIGSTOP),
        *(_signal.SIGSEGV, _signal.SIGBUS, _signal.SIGFPE, _signal.SIGILL),
        *(_signal.SIGTTIN, _signal.SIGTTOU, _signal.SIGURG),
    )
)
QUEUED = frozenset(_signal.valid_signals() - UNTOUCHED)
MASK = sum(1 << (number - 1) for number in QUEUED)  # the kernel's sigset_t
# Signals that are queued but not forwarded: they are meant for this process.
KEPT = frozenset((_signal.SIGCHLD, _signal.SIGWINCH, _signal.SIGPIPE))
SIGINFO = Struct("I124x")  # struct signalfd_siginfo begins with the signal's number
READ_SIZE = 64 * SIGINFO.size


class SignalQueue:
    """A queue of signals for this process, read from a signalfd(2).

    The signals are blocked until ``release`` is called.  ``fd`` is readable while signals are
    pending.  Create the queue before the container's process, so that no signal is lost.  Programs
    started while the queue exists inherit the blocked signals.  The executor and ``run_host_hooks``
    therefore unblock them in the programs that they run.
    """

    __slots__ = ("_before", "_on_child", "_received", "fd")

    def __init__(self) -> None:
        """Block the signals.  Raises HostError."""
        from ociruntime._system_calls import lib

        self._received: set[int] = set()
        # Not a handler for each signal: that takes fifty system calls.
        self._before = _signal.pthread_sigmask(_signal.SIG_BLOCK, QUEUED)
        # If the caller ignores SIGCHLD, the kernel would reap the container before we can.
        self._on_child = _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
        self.fd = lib.oci_signalfd(MASK)
        if self.fd < 0:
            self._restore()
            error = OSError(-self.fd, posix.strerror(-self.fd))
            raise HostError("create a signalfd", error) from None

    def receive(self) -> None:
        """Read the pending signals from ``fd``."""
        try:
            while True:
                data = posix.read(self.fd, READ_SIZE)
                self._received.update(number for (number,) in SIGINFO.iter_unpack(data))
                if len(data) < READ_SIZE:
                    return
        except BlockingIOError:
            pass  # none is pending

    def take(self) -> list[int]:
        """Return the numbers of the signals received since the last call, without duplicates."""
        taken = list(self._received)
        self._received.clear()
        return taken

    def has_any(self, numbers: Iterable[int]) -> bool:
        """Return whether any of the signals ``numbers`` has been received but not taken yet."""
        return not self._received.isdisjoint(numbers)

    def release(self) -> None:
        """Discard the pending signals, and unblock those that were not blocked before."""
        self.receive()
        posix.close(self.fd)
        self._restore()

    def _restore(self) -> None:
        if self._on_child is not None:  # None: a handler that was not installed by Python
            _signal.signal(_signal.SIGCHLD, self._on_child)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, self._before)


def open_relay(master: int) -> Relay | None:
    """Return a relay between the host's terminal and a container's; None if ``master`` is -1.

    ``master`` is the container's pty master.  Raises ConfigError if this process has no terminal.
    """
    if master < 0:
        return None
    from ociruntime.base.terminal import find_terminal
    from ociruntime.base.terminal_relay import Relay

    return Relay(master, find_terminal())


def wait_foreground(
    pidfd: int,
    pid: int,
    relay: Relay | None = None,
    signals: SignalQueue | None = None,
    notifying: NotifyRelay | None = None,
) -> int:
    """Forward signals to the container's init until it exits; return its exit status.

    The init, which must be a child of this process, has the pid ``pid`` and the pidfd ``pidfd``.
    The status is 128+n if signal n killed the init.  Other children, which were reparented to this
    process because it is a subreaper, are reaped as well.  Starts ``relay`` and always closes it,
    which restores the terminal.  ``signals`` is not released, so that a late signal does not
    interrupt the caller's cleanup.  ``notifying`` forwards the container's sd_notify(3) messages to
    a service manager.  Raises HostError.
    """
    queue = signals or SignalQueue()
    try:
        if relay is not None:
            relay.begin()
        status = _wait(pidfd, pid, relay, queue, notifying)
        if relay is not None:
            relay.finish()
    except OSError as error:
        raise HostError(f"wait for process {pid}", error) from None
    finally:
        if relay is not None:
            relay.close()
        if signals is None:
            queue.release()
    return 128 + posix.WTERMSIG(status) if posix.WIFSIGNALED(status) else posix.WEXITSTATUS(status)


def _wait(
    pidfd: int,
    pid: int,
    relay: Relay | None,
    signals: SignalQueue,
    notifying: NotifyRelay | None,
) -> int:
    """Wait for process ``pid`` to exit while serving relays and signals; return its wait status."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    poll.register(signals.fd, select.POLLIN)
    if notifying is not None:
        poll.register(notifying.fileno(), select.POLLIN)
    status: int | None = None
    while status is None:
        numbers = signals.take()
        for number in numbers:
            _react(number, pidfd, relay)
        if _signal.SIGCHLD in numbers:
            status = _reap(pid)
            if status is not None:
                break
        timeout = relay.watch(poll) if relay is not None else None
        for fd, events in poll.poll(timeout):
            if fd == pidfd:
                status = _reap(pid)
                if status is None:
                    if not _is_child(pid):
                        raise InternalError(
                            f"wait for process {pid}: it has exited, but is not our child"
                        )
                    # A traced init is reaped by its tracer first; SIGCHLD arrives after that.
                    poll.unregister(pidfd)
            elif fd == signals.fd:
                signals.receive()
            elif notifying is not None and fd == notifying.fileno():
                _notify(notifying)
            elif relay is not None:
                relay.handle(fd, events)
    return status


def _notify(notifying: NotifyRelay) -> None:
    try:
        notifying.forward()
    except HostError:
        pass  # the service manager no longer listens: keep the container running


def _react(number: int, pidfd: int, relay: Relay | None) -> None:
    if relay is not None:
        if number == _signal.SIGWINCH:
            relay.resize()
        elif number == _signal.SIGCONT:
            relay.resume()
    if number not in KEPT:
        try:
            _signal.pidfd_send_signal(pidfd, number)
        except OSError:
            pass  # the init has exited, or has changed its uid


def _is_child(pid: int) -> bool:
    try:
        posix.waitid(posix.P_PID, pid, posix.WEXITED | posix.WNOHANG | posix.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _reap(pid: int) -> int | None:
    """Reap all exited children; return the wait status of ``pid``, or None if it still runs."""
    status = None
    try:
        while True:
            child, child_status = posix.waitpid(-1, posix.WNOHANG)
            if child == 0:
                break
            if child == pid:
                status = child_status
    except ChildProcessError:
        pass
    return status
