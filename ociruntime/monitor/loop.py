"""One loop for descriptors, times, signals and children; nothing in it may block."""

from __future__ import annotations

import posix
import select
import time

from ociruntime.host.foreground import CaughtSignals

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable
else:
    import _signal

READABLE = select.POLLIN
WRITABLE = select.POLLOUT
HUNG_UP = select.POLLHUP | select.POLLERR | select.POLLNVAL


class Timer:
    """A call that is to come; ``cancel`` it, or forget about it."""

    __slots__ = ("call", "due")

    def __init__(self, due: float, call: Callable[[], None]) -> None:
        self.due = due
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """It will not be called."""
        self.call = None


class Loop:
    """From its making to ``close`` signals come by ``on_signal``, ends of children by ``expect``.

    Children are reaped here alone: until then a pid that is expected means no other process.
    """

    __slots__ = ("_children", "_poll", "_signals", "_timers", "_watched", "on_signal", "stopped")

    def __init__(self) -> None:
        self._poll = select.poll()
        self._watched: dict[int, Callable[[int], None]] = {}
        self._timers: list[Timer] = []
        self._children: dict[int, Callable[[int], None]] = {}
        self._signals = CaughtSignals()
        self.on_signal: Callable[[int], None] = _ignore
        self.stopped = False
        self.watch(self._signals.fd, READABLE, lambda _: self._signals.clear_wakeup())

    def watch(self, fd: int, events: int, call: Callable[[int], None]) -> None:
        """Call ``call(events)`` while there is any of ``events``, or a hang-up, at ``fd``."""
        self._watched[fd] = call
        self._poll.register(fd, events)

    def forget(self, fd: int) -> None:
        """No longer watch; to be called before ``fd`` is closed."""
        if self._watched.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def after(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Call once, later."""
        timer = Timer(time.monotonic() + seconds, call)
        self._timers.append(timer)
        return timer

    def expect(self, pid: int, call: Callable[[int], None]) -> None:
        """Call ``call(wait status)`` when the child has ended."""
        self._children[pid] = call

    def children(self) -> list[int]:
        """Pids of all that are expected."""
        return list(self._children)

    def run(self) -> None:
        """Go round until ``stopped``."""
        while not self.stopped:
            self._handle_signals()
            wait = self._call_timers()
            if self._is_over():
                return
            for fd, events in self._poll.poll(wait):
                call = self._watched.get(fd)
                if call is not None:  # not taken away by a call of this round
                    call(events)

    def _is_over(self) -> bool:
        return self.stopped

    def _handle_signals(self) -> None:
        for number in self._signals.take():
            if number == _signal.SIGCHLD:
                self._reap()
            else:
                self.on_signal(number)

    def _reap(self) -> None:
        ended: dict[int, int] = {}
        try:
            while True:
                pid, status = posix.waitpid(-1, posix.WNOHANG)
                if pid == 0:
                    break
                ended[pid] = status
        except ChildProcessError:
            pass
        # The end of one child may be what makes us expect another that has ended as well: a
        # runtime has left it to us.  The rest are orphans of no interest.
        waiting = True
        while waiting:
            waiting = False
            for pid in list(ended):
                call = self._children.pop(pid, None)
                if call is not None:
                    waiting = True
                    call(ended.pop(pid))

    def _call_timers(self) -> int | None:
        """Milliseconds until the next one, or None."""
        now = time.monotonic()
        due = [timer for timer in self._timers if timer.due <= now]
        self._timers = [timer for timer in self._timers if timer.due > now and timer.call]
        for timer in due:
            if timer.call is not None:
                timer.call()
        if not self._timers:
            return None
        return max(0, int((min(timer.due for timer in self._timers) - now) * 1000) + 1)

    def close(self) -> None:
        """Signals have their former meaning again."""
        self._signals.release()


def _ignore(number: int) -> None:
    del number
