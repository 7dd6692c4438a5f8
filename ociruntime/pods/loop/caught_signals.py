"""A queue of the signals that a pod's monitor catches."""

from __future__ import annotations

import os
import signal

from ociruntime.base.errors import HostError
from ociruntime.base.foreground import QUEUED


class CaughtSignals:
    """A queue of caught signals, which do not kill this process until ``release`` is called.

    ``fd`` is readable when ``take`` would return a signal.  Create the queue before the container's
    process: otherwise a signal that arrives between the two steps is lost.
    """

    __slots__ = ("_old", "_old_wakeup", "_pending", "_write", "fd")

    def __init__(self) -> None:
        """Install the signal handlers; raise HostError if the wakeup pipe cannot be created."""
        self._pending: dict[int, object] = {}
        try:
            self.fd, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            # Python delays its handlers; the wakeup descriptor wakes poll(2) at once.  A full
            # pipe is no problem: it is readable.
            self._old_wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        except OSError as error:
            raise HostError("create a pipe for caught signals", error) from None
        self._old: dict[int, object] = {}
        for number in QUEUED:
            # The handler is a method written in C: no Python code runs in it, so a storm of signals
            # cannot nest handlers.
            handler = signal.SIG_IGN if number == signal.SIGPIPE else self._pending.__setitem__
            self._old[number] = signal.signal(number, handler)

    def take(self) -> list[int]:
        """Return the numbers of the signals received since the last call, without duplicates."""
        taken: list[int] = []
        while self._pending and len(taken) < signal.NSIG:
            taken.append(int(self._pending.popitem()[0]))
        return taken

    def clear_wakeup(self) -> None:
        """Empty the wakeup pipe; call it before ``take``."""
        try:
            while len(os.read(self.fd, 4096)) == 4096:
                pass
        except BlockingIOError:
            pass

    def release(self) -> None:
        """Restore the previous signal dispositions."""
        for number, old in self._old.items():
            signal.signal(number, old if old is not None else signal.SIG_DFL)  # type: ignore[arg-type]
        self._old.clear()
        signal.set_wakeup_fd(self._old_wakeup)
        os.close(self.fd)
        os.close(self._write)
