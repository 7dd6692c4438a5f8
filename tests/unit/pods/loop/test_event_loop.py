"""The event loop: descriptors, timers, children."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Iterator

import pytest

from ociruntime.base.errors import HostError, PodError
from ociruntime.pods.loop import worker
from ociruntime.pods.loop.event_loop import READABLE, Loop
from ociruntime.pods.loop.worker import Outcome
from tests.support.descriptors import open_descriptors


@pytest.fixture
def loop() -> Iterator[Loop]:
    one = Loop()
    yield one
    one.close()


def test_overdue_timers_are_called_in_the_order_of_their_times(loop: Loop) -> None:
    called: list[int] = []
    loop.after(0.002, lambda: called.append(2))
    loop.after(0.001, lambda: called.append(1))
    time.sleep(0.01)

    def stop() -> None:
        loop.stopped = True

    loop.after(0, stop)
    loop.run()
    assert called == [1, 2]


def test_the_kernel_lacks_memory_for_a_moment(loop: Loop) -> None:
    """The loop goes on."""
    asked: list[int | None] = []

    class Poll:
        def poll(self, milliseconds: int | None) -> list[tuple[int, int]]:
            asked.append(milliseconds)
            if len(asked) == 1:
                raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
            loop.stopped = True
            return []

    usual, loop._poll = loop._poll, Poll()  # type: ignore[assignment]
    loop.run()
    loop._poll = usual
    assert len(asked) == 2


def test_timers(loop: Loop) -> None:
    called: list[int] = []

    def stop() -> None:
        loop.stopped = True

    loop.after(0.02, lambda: called.append(2))
    loop.after(0.01, lambda: called.append(1))
    loop.after(0.015, lambda: called.append(9)).cancel()
    loop.after(0.03, stop)
    loop.run()
    assert called == [1, 2]


def test_descriptors(loop: Loop) -> None:
    reader, writer = os.pipe()

    def read(events: int) -> None:
        del events
        assert os.read(reader, 10) == b"x"
        loop.forget(reader)
        loop.stopped = True

    loop.watch(reader, READABLE, read)
    os.write(writer, b"x")
    loop.run()
    loop.forget(reader)  # twice is no mistake
    os.close(reader)
    os.close(writer)


def test_signals(loop: Loop) -> None:
    came: list[int] = []

    def note(number: int) -> None:
        came.append(number)
        loop.stopped = True

    loop.on_signal = note
    os.kill(os.getpid(), signal.SIGTERM)
    loop.run()
    assert came == [signal.SIGTERM]


def run(loop: Loop, work: worker.Work) -> Outcome:
    found: list[Outcome] = []

    def done(outcome: Outcome) -> None:
        found.append(outcome)
        loop.stopped = True

    worker.start(loop, (), "do it", work, done)
    loop.run()
    return found[0]


def test_work_in_a_child(loop: Loop) -> None:
    outcome = run(loop, lambda: {"pid": os.getpid()})
    assert outcome.status == 0
    assert outcome.value["pid"] != os.getpid()
    outcome.check()


def test_work_that_fails(loop: Loop) -> None:
    def work() -> None:
        raise PodError("it is broken", "mend it")

    outcome = run(loop, work)
    assert (outcome.status, outcome.error) == (254, "it is broken (mend it)")
    with pytest.raises(PodError, match="broken"):
        outcome.check()


def test_work_that_the_kernel_refuses(loop: Loop) -> None:
    outcome = run(loop, lambda: os.stat("/missing/file"))  # type: ignore[arg-type, return-value]
    assert outcome.status == 254
    assert outcome.error == 'do it: "/missing/file": no such file or directory'


def test_result_that_cannot_be_read(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception in the loop would end the pod, and lose the waiting app."""

    def refuse(*arguments: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "pread", refuse)
    outcome = run(loop, lambda: {"pid": 1})
    assert outcome.status == 254
    assert "input/output error" in outcome.error


def test_work_that_is_killed(loop: Loop) -> None:
    outcome = run(loop, lambda: os.kill(os.getpid(), signal.SIGKILL))
    assert outcome.status == 137
    with pytest.raises(PodError, match=r"do it: .*status 137"):
        outcome.check()


def test_an_error_loses_no_end_and_no_time(loop: Loop) -> None:
    """All events are due, and each callback fails: the others still run."""
    told: list[int] = []

    def fail(number: int) -> None:
        told.append(number)
        raise PodError("it is broken")

    children = [os.spawnv(os.P_NOWAIT, "/bin/true", ["true"]) for _ in range(3)]
    for pid in children:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        loop.expect(pid, lambda _, pid=pid: fail(pid))  # type: ignore[misc]
    for number in (1, 2):
        loop.after(0, lambda number=number: fail(number))  # type: ignore[misc]
    for signal_number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1):
        os.kill(os.getpid(), signal_number)
    loop.on_signal = fail
    while len(told) < 7:
        with pytest.raises(PodError):
            loop.run()
    assert sorted(told) == sorted([*children, 1, 2, signal.SIGTERM, signal.SIGUSR1])


def test_a_child_is_there_until_its_end_is_told(loop: Loop) -> None:
    """A child is reaped after its end is told, so no other process can have its pid yet."""
    one, two = (os.spawnv(os.P_NOWAIT, "/bin/true", ["true"]) for _ in range(2))
    for pid in (one, two):
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    ends: list[int] = []

    def ended(pid: int, other: int) -> None:
        if not ends:
            os.kill(other, signal.SIGTERM)
        ends.append(pid)
        loop.stopped = len(ends) == 2

    loop.expect(one, lambda _: ended(one, two))
    loop.expect(two, lambda _: ended(two, one))
    os.kill(os.getpid(), signal.SIGCHLD)
    loop.run()
    assert sorted(ends) == sorted([one, two])


def test_an_interrupt_before_the_child_left_the_group_is_the_monitor_s(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """^C reaches the whole foreground process group."""
    setpgid = os.setpgid

    def interrupted(pid: int, group: int) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        setpgid(pid, group)

    outcomes: list[Outcome] = []

    def done(outcome: Outcome) -> None:
        outcomes.append(outcome)
        loop.stopped = True

    monkeypatch.setattr(os, "setpgid", interrupted)
    worker.start(loop, (), "do it", lambda: {"done": True}, done)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    loop.run()
    assert (outcomes[0].status, outcomes[0].error) == (0, "")


@pytest.mark.parametrize("name", ["memfd_create", "fork"])
def test_a_child_that_cannot_be_started(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The descriptor is closed, and the signal mask is as it was."""

    def fail(*_: object) -> int:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, name, fail)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    descriptors = open_descriptors()
    try:
        with pytest.raises(HostError, match=r"do it: start .* child process"):
            worker.start(loop, (), "do it", dict, lambda _: None)
        assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert open_descriptors() == descriptors
