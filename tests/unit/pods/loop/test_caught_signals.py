from __future__ import annotations

import errno
import os
import signal

import pytest

from ociruntime.base.errors import HostError
from ociruntime.base.foreground import QUEUED
from ociruntime.pods.loop.caught_signals import CaughtSignals


def test_what_is_caught() -> None:
    signals = CaughtSignals()
    try:
        for number in QUEUED:
            os.kill(os.getpid(), number)
        taken = signals.take()
        assert set(taken) == {int(n) for n in QUEUED} - {signal.SIGPIPE}
        assert signals.take() == []
    finally:
        signals.release()


def test_no_descriptor_for_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error leaves all signal handlers as they were."""

    def fail(flags: int) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("os.pipe2", fail)
    with pytest.raises(HostError, match="signals: too many open files"):
        CaughtSignals()
    assert signal.getsignal(signal.SIGTERM) == before


def test_wakeup_pipe() -> None:
    """It is emptied, however full it is, and may be empty before."""
    signals = CaughtSignals()
    try:
        signals.clear_wakeup()
        os.write(signals._write, bytes(4096 + 7))
        signals.clear_wakeup()
        with pytest.raises(BlockingIOError):
            os.read(signals.fd, 1)
        os.write(signals._write, bytes(4096))
        signals.clear_wakeup()
        with pytest.raises(BlockingIOError):
            os.read(signals.fd, 1)
    finally:
        signals.release()
