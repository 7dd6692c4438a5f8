"""The event loop of a pod's monitor, for descriptors, timers, signals and child processes.

Callbacks must not block.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import time
from collections.abc import Callable

from ociruntime.pods.loop.caught_signals import CaughtSignals

READABLE = select.POLLIN
WRITABLE = select.POLLOUT
NO_MEMORY_PAUSE = 0.1  # seconds until poll(2) is tried again after ENOMEM
HUNG_UP = select.POLLHUP | select.POLLERR | select.POLLNVAL


class Timer:
    """A scheduled call, created by ``Loop.after``; ``due`` is its time on the monotonic clock."""

    __slots__ = ("call", "due")

    def __init__(self, due: float, call: Callable[[], None]) -> None:
        self.due = due
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """Cancel the scheduled call if it has not been made."""
        self.call = None


class Loop:
    """An event loop based on poll(2), for descriptors, timers, signals and child processes.

    From its creation until ``close``, the loop catches signals; ``run`` calls ``on_signal`` with
    the number of each signal except SIGCHLD.  Only the loop reaps children, so the pid of a child
    cannot be reused before the callback passed to ``expect`` runs.  If a callback raises an
    exception, ``run`` raises it, and can be called again without losing an event.
    """

    __slots__ = (
        *("_children", "_ended", "_poll", "_reaping", "_signals", "_taken", "_timers", "_watched"),
        *("idle_timeout", "on_quiet", "on_signal", "stopped"),
    )

    def __init__(self) -> None:
        self._poll = select.poll()
        self._watched: dict[int, Callable[[int], None]] = {}
        self._timers: list[Timer] = []
        self._children: dict[int, Callable[[int], None]] = {}
        self._ended: dict[int, int] = {}  # pid -> wait status, of reaped children not yet expected
        self._reaping = False  # stays true if an exception interrupts the reaping
        self._taken: list[int] = []  # signals received but not yet handled
        self._signals = CaughtSignals()
        self.on_signal: Callable[[int], None] = _ignore
        self.idle_timeout: float | None = None  # seconds without an event before ``on_quiet``
        self.on_quiet: Callable[[], None] = _nothing
        self.stopped = False
        self.watch(self._signals.fd, READABLE, lambda _: self._signals.clear_wakeup())

    def watch(self, fd: int, events: int, call: Callable[[int], None]) -> None:
        """Call ``call`` whenever any of ``events`` or ``HUNG_UP`` occurs on ``fd``.

        ``events`` are flags of poll(2); ``call`` gets the flags of the events that have occurred.
        """
        self._watched[fd] = call
        self._poll.register(fd, events)

    def forget(self, fd: int) -> None:
        """Stop watching ``fd``; call this before closing it."""
        if self._watched.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def after(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Schedule ``call`` to be called once, after ``seconds``; return its timer."""
        timer = Timer(time.monotonic() + seconds, call)
        self._timers.append(timer)
        return timer

    def expect(self, pid: int, call: Callable[[int], None]) -> None:
        """Arrange for ``call(wait_status)`` to be called once the child ``pid`` has exited."""
        self._children[pid] = call

    def children(self) -> list[int]:
        """Return the pids of all children that were passed to ``expect`` and have not exited."""
        return list(self._children)

    def run(self) -> None:
        """Handle events until ``stopped`` is set.

        Calls ``on_quiet`` whenever no event has occurred for ``idle_timeout`` seconds and no call
        is scheduled.
        """
        while not self.stopped:
            self._handle_signals()
            wait = self._call_timers()
            if self._is_stopped():
                return
            ready = self._wait(self._idle_milliseconds() if wait is None else wait)
            if wait is None and not ready:
                self.on_quiet()
            for fd, events in ready:
                call = self._watched.get(fd)
                if call is not None:  # an earlier call of this round may have unwatched it
                    call(events)

    def _wait(self, milliseconds: int | None) -> list[tuple[int, int]]:
        """Wait until a descriptor is ready; return (descriptor, events) of each that is.

        Returns [] if none is ready after ``milliseconds``; None means no timeout.  If poll(2) fails
        for lack of memory, tries again until it succeeds: a pod must not end because of that.
        """
        while True:
            try:
                return self._poll.poll(milliseconds)
            except OSError as error:
                if error.errno != errno.ENOMEM:
                    raise
                time.sleep(NO_MEMORY_PAUSE)

    def _is_stopped(self) -> bool:
        return self.stopped

    def _idle_milliseconds(self) -> int | None:
        return None if self.idle_timeout is None else int(self.idle_timeout * 1000)

    def descriptors(self) -> list[int]:
        """Return the watched descriptors, except the descriptor of the signal queue."""
        return [fd for fd in self._watched if fd != self._signals.fd]

    @property
    def is_quiet(self) -> bool:
        """Return whether no event, signal or timer is pending."""
        return not (self._timers or self._taken or self._reaping or self._poll.poll(0))

    def reap_soon(self) -> None:
        """Make the next iteration of ``run`` reap exited children, as if SIGCHLD had arrived."""
        self._reaping = True

    def _handle_signals(self) -> None:
        if self._reaping:
            self._reap()
        self._taken += self._signals.take()
        while self._taken:
            number = self._taken.pop(0)
            if number == signal.SIGCHLD:
                self._reap()
            else:
                self.on_signal(number)

    def _reap(self) -> None:
        """Reap exited children one by one, so that no pid is reused before its callback runs."""
        self._reaping = True
        self._report_exits()
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            self._ended[pid] = status
            self._report_exits()
        self._ended.clear()  # orphans, whose exit nothing waits for
        self._reaping = False

    def _report_exits(self) -> None:
        # A callback may expect a child that has been reaped already: once the runtime has exited,
        # the container's init is our child, and may have exited, too.
        waiting = True
        while waiting:
            waiting = False
            for pid in list(self._ended):
                call = self._children.pop(pid, None)
                if call is not None:
                    waiting = True
                    call(self._ended.pop(pid))

    def _call_timers(self) -> int | None:
        """Make the scheduled calls that are due.

        Returns the milliseconds until the next scheduled call, None if there is none.
        """
        now = time.monotonic()
        due = [timer for timer in self._timers if timer.due <= now]
        for timer in sorted(due, key=lambda timer: timer.due):
            self._timers.remove(timer)
            call, timer.call = timer.call, None
            if call is not None:
                call()
        self._timers = [timer for timer in self._timers if timer.call]
        if not self._timers:
            return None
        return max(0, int((min(timer.due for timer in self._timers) - now) * 1000) + 1)

    def close(self) -> None:
        """Restore the signal handlers that were set before the loop was created."""
        self._signals.release()


def _ignore(number: int) -> None:
    del number


def _nothing() -> None:
    pass
