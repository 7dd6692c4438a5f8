"""A sample of ``./dev soak``: few containers, and few seconds."""

from __future__ import annotations

import pytest

from tests.soak import alive, contention, kernel_counters, lives, pid_reuse
from tests.soak.pid_reuse import CASES, DURING, Case, During
from tests.soak.subjects import Subject
from tests.support.peers import judge_by

pytestmark = [judge_by("ociruntime"), pytest.mark.slow, pytest.mark.usefixtures("nothing_left")]

SHARES = (0.3, 0.8)  # of a command's calls, before which the pid is reused
SAMPLE = [one for one in DURING if one.words[0] in {"state", "kill", "delete"} and not one.python]


def test_contention(subject: Subject) -> None:
    fight = contention.fight(subject, clients=8, seconds=2, seed=1)
    assert fight.record()["problems"] == []
    assert fight.record()["overlapping"] > 8


@pytest.mark.parametrize("case", CASES, ids=str)
def test_reused_pid(case: Case, subject: Subject, strangers: pid_reuse.Strangers) -> None:
    assert pid_reuse.one_round(subject, strangers, case) in ([], None)


@pytest.mark.parametrize("during", SAMPLE, ids=str)
def test_pid_reused_during_a_command(during: During, stepped: pid_reuse.Stepped) -> None:
    calls = stepped.calls(during)
    rounds = [stepped.one_round(during, int(calls * share)) for share in SHARES]
    assert [one for one in rounds if one] == []
    assert any(one is not None for one in rounds)


def test_harm_is_seen(subject: Subject, strangers: pid_reuse.Strangers) -> None:
    """A stranger that gets a signal, or is killed, is detected."""
    name = f"{subject.prefix}-harmed"
    for signal, harm in (("TERM", "got signals"), ("KILL", "was killed")):
        pid = pid_reuse.bring(subject, name, started=False)
        pid_reuse.kill(pid)
        with strangers.at(pid) as made:
            if made:
                assert pid_reuse.harm(pid) == ""
                pid_reuse.send(pid, signal)
                assert harm in pid_reuse.harm(pid)
        subject.spawn(*subject.words("delete", name))


def test_alive(subject: Subject) -> None:
    found = alive.alive(subject, 8)
    assert (found["alive"], found["problems"]) == (8, [])


def test_burst(subject: Subject) -> None:
    found = alive.burst(subject, 10)
    assert (found["failed"], found["problems"]) == (0, [])


def test_lives(subject: Subject) -> None:
    assert lives.run(subject, 5) == []


@pytest.mark.long
def test_long_contention(subject: Subject) -> None:
    assert contention.fight(subject, clients=8, seconds=30, seed=2).record()["problems"] == []


@pytest.mark.long
@pytest.mark.parametrize("during", DURING, ids=str)
def test_pid_reused_at_many_calls(during: During, stepped: pid_reuse.Stepped) -> None:
    calls = stepped.calls(during)
    rounds = [stepped.one_round(during, at) for at in range(1, calls, max(calls // 40, 1))]
    assert [one for one in rounds if one] == []


@pytest.mark.long
def test_many_lives(subject: Subject) -> None:
    """After 1,000 lives, the caller's own descriptors and mounts are unchanged."""
    readings = []
    for number in range(10):
        assert lives.run(subject, 100) == []
        readings.append((number * 100, kernel_counters.read()))
    own = {name: each for name, each in kernel_counters.growth(readings).items() if "own" in name}
    assert set(own.values()) == {0}
