"""Foreground mode: forward signals to a container, wait for it, and return its exit status."""

from __future__ import annotations

import posix
import select

from ociruntime.base.errors import HostError, InternalError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Iterable

    from ociruntime.base.notify_socket import NotifyRelay
    from ociruntime.base.terminal_relay import Relay
else:
    import _signal

# Signals that are not caught.  KILL and STOP cannot be caught.  A fault such as SEGV must end this
# program.  TTIN and TTOU stop a background job that uses its terminal: a program that catches them
# retries forever.  URG is ignored by default.
UNTOUCHED = frozenset(
    (
        *(_signal.SIGKILL, _signal.SIGSTOP),
        *(_signal.SIGSEGV, _signal.SIGBUS, _signal.SIGFPE, _signal.SIGILL),
        *(_signal.SIGTTIN, _signal.SIGTTOU, _signal.SIGURG),
    )
)
# Signals that are caught but not forwarded: they are meant for this process.
KEPT = frozenset((_signal.SIGCHLD, _signal.SIGWINCH, _signal.SIGPIPE))


class CaughtSignals:
    """A queue of caught signals: until ``release``, they do not kill this process.

    ``fd`` is readable when ``take`` would return a signal.  Create the object before the
    container's process, so that no signal is lost in between.
    """

    __slots__ = ("_old", "_old_wakeup", "_pending", "_write", "fd")

    def __init__(self) -> None:
        """Install the signal handlers.  Raises HostError."""
        self._pending: dict[int, object] = {}
        try:
            self.fd, self._write = posix.pipe2(posix.O_CLOEXEC | posix.O_NONBLOCK)
            # Python delays its handlers; the wakeup descriptor wakes poll(2) at once.  A full
            # pipe is no problem: it is readable.
            self._old_wakeup = _signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        except OSError as error:
            raise HostError("create a pipe for caught signals", error) from None
        self._old: dict[int, object] = {}
        for number in _signal.valid_signals() - UNTOUCHED:
            # The handler is a method written in C: no Python code runs in it, so a storm of signals
            # cannot nest handlers.
            handler = _signal.SIG_IGN if number == _signal.SIGPIPE else self._pending.__setitem__
            self._old[number] = _signal.signal(number, handler)

    def take(self) -> list[int]:
        """Return the numbers of the signals received since the last call, without duplicates."""
        taken: list[int] = []
        while self._pending and len(taken) < _signal.NSIG:
            taken.append(int(self._pending.popitem()[0]))
        return taken

    def has_any(self, numbers: Iterable[int]) -> bool:
        """Return whether any of the signals ``numbers`` has been received but not taken yet."""
        return any(number in self._pending for number in numbers)

    def clear_wakeup(self) -> None:
        """Empty the wakeup pipe; call it before ``take``."""
        try:
            while len(posix.read(self.fd, 4096)) == 4096:
                pass
        except BlockingIOError:
            pass

    def release(self) -> None:
        """Restore the previous signal dispositions."""
        for number, old in self._old.items():
            _signal.signal(number, old if old is not None else _signal.SIG_DFL)  # type: ignore[arg-type]
        self._old.clear()
        _signal.set_wakeup_fd(self._old_wakeup)
        posix.close(self.fd)
        posix.close(self._write)


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
    signals: CaughtSignals | None = None,
    notifying: NotifyRelay | None = None,
) -> int:
    """Forward signals to the container's init until it exits; return its exit status.

    The status is 128+n if signal n killed the init, which must be a child of this process.  Also
    reaps other children, which were reparented to this subreaper.  Starts ``relay`` and always
    closes it, which restores the terminal.  ``signals`` stay caught after the call, so that a late
    signal does not interrupt the caller's cleanup.  ``notifying`` forwards the container's
    sd_notify(3) messages to a service manager.  Raises HostError.
    """
    caught = signals or CaughtSignals()
    try:
        if relay is not None:
            relay.begin()
        status = _wait(pidfd, pid, relay, caught, notifying)
        if relay is not None:
            relay.finish()
    except OSError as error:
        raise HostError(f"wait for process {pid}", error) from None
    finally:
        if relay is not None:
            relay.close()
        if signals is None:
            caught.release()
    return 128 + posix.WTERMSIG(status) if posix.WIFSIGNALED(status) else posix.WEXITSTATUS(status)


def _wait(
    pidfd: int,
    pid: int,
    relay: Relay | None,
    signals: CaughtSignals,
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
                signals.clear_wakeup()
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
    """Reap all exited children; return the wait status of ``pid``, None if it has not exited."""
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
