"""Any sequence of commands, some concurrent, some killed or stopped in the middle.

After each step, every pod is in a state that the commands of the step allow, and none is lost: a
pod that no command has removed still exists, once, with its content.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from ociruntime.pods.store import phases
from ociruntime.pods.store.pod import GONE, PHASES, STATES
from tests.support import pod_processes
from tests.support.pod_processes import Command

LONG = 3600.0
TABLE = {state for states in STATES.values() for state in states}
MARKS = {
    "embryo": "garbage",
    "aborted prepare": "garbage",
    "prepared": "garbage",
    "exited": "exited garbage",
}
SWEEP_FAULTS = ("gc.sweep.after-lock", "gc.sweep.before-manifest")
ENDS = st.sampled_from(["kill", "stop"])
# Which pod: by number, so that what is drawn does not depend on who wins a race.
NUMBERS = st.integers(0, 11)


class Collection:
    """The effect of ``gc`` with these options on a pod."""

    def __init__(self, grace: float, expiry: float, mark_only: bool, fault: str) -> None:
        self.grace, self.expiry, self.mark_only, self.fault = grace, expiry, mark_only, fault

    def start(self, directory: str) -> Command:
        return pod_processes.collect(directory, self.grace, self.expiry, self.mark_only, self.fault)

    def steps(self, state: str) -> list[str]:
        """Return the states that a pod goes through; it stays in the last one."""
        marks = state in MARKS
        if state == "embryo":
            marks = self.grace == 0
        elif state == "prepared":
            marks = self.expiry == 0 and not self.mark_only
        found = [MARKS[state]] if marks else []
        last = found[-1] if found else state
        swept = last == "garbage" or (last == "exited garbage" and self.grace == 0)
        return [*found, GONE] if swept and not self.mark_only else found


class Removal:
    """The effect of ``rm`` on the pod that it names."""

    def __init__(self, uuid: str, fault: str) -> None:
        self.uuid, self.fault = uuid, fault

    def start(self, directory: str) -> Command:
        return pod_processes.remove(directory, self.uuid, self.fault)

    @staticmethod
    def steps(state: str) -> list[str]:
        if state in ("embryo", "running", GONE):
            return []
        return [MARKS[state], GONE] if state in MARKS else [GONE]


class Pods(RuleBasedStateMachine):
    """The expected pods.

    ``states``: the state of each pod; ``runners``: monitors of running pods; ``orderly``: pods
    whose app's exit code was written.
    """

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.mkdtemp(prefix="pods-", dir="/dev/shm")
        self.states: dict[str, str] = {}
        self.runners: dict[str, Command] = {}
        self.orderly: set[str] = set()

    # --- one command at a time: exactly what it is to do ---

    @rule()
    def prepare(self) -> None:
        command = pod_processes.prepare(self.directory)
        assert command.wait() == 0, command.said
        self.states[command.said] = "prepared"

    @rule(point=st.sampled_from(["newpod.after-mkdir", "prepare.after-render"]))
    def prepare_and_die(self, point: str) -> None:
        assert pod_processes.prepare(self.directory, f"{point}:kill").wait() == -9
        (uuid,) = set(self.on_disk()) - set(self.states)
        self.states[uuid] = "embryo" if point.startswith("newpod") else "aborted prepare"

    @rule(number=NUMBERS, die=st.booleans())
    def run(self, number: int, die: bool) -> None:
        if not self.states:
            return
        uuid = self.choose(number)
        fault = "runprepared.after-lock:kill" if die else ""
        command = pod_processes.run_prepared(self.directory, uuid, fault)
        if self.states[uuid] != "prepared":
            assert command.wait() == pod_processes.FAILED
            assert f"pod {uuid}" in command.said
        elif die:
            assert command.wait() == -9
        else:
            assert command.listen() == "running"
            self.states[uuid], self.runners[uuid] = "running", command

    @rule(number=NUMBERS, orderly=st.booleans())
    def end(self, number: int, orderly: bool) -> None:
        if not self.runners:
            return
        uuid = list(self.runners)[number % len(self.runners)]
        self.runners.pop(uuid).end(orderly=orderly)
        self.states[uuid] = "exited"
        if orderly:
            self.orderly.add(uuid)

    @rule(grace=st.sampled_from([0, LONG]), expiry=st.sampled_from([0, LONG]), only=st.booleans())
    def collect(self, grace: float, expiry: float, only: bool) -> None:
        collection = Collection(grace, expiry, only, "")
        command = collection.start(self.directory)
        assert command.wait() == 0, command.said
        assert "problem" not in command.said
        for uuid, state in self.states.items():
            self.states[uuid] = ([state, *collection.steps(state)])[-1]

    @rule(number=NUMBERS)
    def remove(self, number: int) -> None:
        if not self.states:
            return
        uuid = self.choose(number)
        steps = Removal.steps(self.states[uuid])
        command = pod_processes.remove(self.directory, uuid)
        assert command.wait() == (0 if steps else pod_processes.FAILED), command.said
        self.states[uuid] = steps[-1] if steps else self.states[uuid]

    # --- several at once, or one that is killed or stopped ---

    @rule(data=st.data())
    def jumble(self, data: st.DataObject) -> None:
        if not self.states:
            return
        discards: list[Collection | Removal] = []
        for _ in range(data.draw(st.integers(2, 4))):
            discards.append(self.draw_discard(data))
        commands = [one.start(self.directory) for one in discards]
        starts: dict[Command, str] = {}
        for _ in range(data.draw(st.integers(0, 2))):
            uuid = self.choose(data.draw(NUMBERS))
            fault = data.draw(st.sampled_from(["", "", "runprepared.after-lock:stop"]))
            starts[pod_processes.run_prepared(self.directory, uuid, fault)] = uuid
        looks = [
            pod_processes.status(self.directory, self.choose(data.draw(NUMBERS))) for _ in range(2)
        ]
        runs = self.settle([*commands, *looks], starts)
        for one in [*commands, *looks]:
            assert "!!" not in one.said, one.said
            assert "problem" not in one.said, one.said
        for look in looks:
            assert look.said.startswith("!") or look.said in TABLE | {GONE}
        self.judge(discards, runs)

    def settle(self, commands: list[Command], starts: dict[Command, str]) -> dict[str, Command]:
        """Let everything exit except the running pods, which are returned."""
        pod_processes.let_all_end([*commands, *starts], keep=lambda one: one in starts)
        runs: dict[str, Command] = {}
        for command, uuid in starts.items():
            if command.listen() == "running":
                assert uuid not in runs, "two run one pod"
                runs[uuid] = command
            else:
                assert command.wait() == pod_processes.FAILED, command.said
        return runs

    def judge(self, discards: list[Collection | Removal], runs: dict[str, Command]) -> None:
        found = self.on_disk()
        for uuid, state in self.states.items():
            if uuid in runs:
                assert (state, found[uuid]) == ("prepared", "running")
                self.states[uuid], self.runners[uuid] = "running", runs[uuid]
                continue
            allowed = closure(state, [one for one in discards if names(one, uuid)])
            assert found.get(uuid, GONE) in allowed, (uuid, state, allowed)
            self.states[uuid] = found.get(uuid, GONE)

    def draw_discard(self, data: st.DataObject) -> Collection | Removal:
        point = data.draw(st.sampled_from(["", *SWEEP_FAULTS, "gc.expire.after-lock"]))
        fault = f"{point}:{data.draw(ENDS)}" if point else ""
        if point != "gc.expire.after-lock" and data.draw(st.booleans()):
            return Removal(self.choose(data.draw(NUMBERS)), fault)
        periods = st.sampled_from([0, 0, LONG])
        only = data.draw(st.sampled_from([False, False, False, True]))
        return Collection(data.draw(periods), data.draw(periods), only, fault)

    # --- what is always so ---

    @invariant()
    def all_are_where_they_are_to_be(self) -> None:
        wanted = {uuid: state for uuid, state in self.states.items() if state != GONE}
        assert self.on_disk() == wanted
        for uuid in self.orderly & wanted.keys():
            if wanted[uuid] != "exited":
                continue  # a sweep of it may have been killed
            with phases.open_pod(self.directory, uuid) as pod:
                assert pod.read("apps/stub/status").decode() == pod_processes.CODE

    def on_disk(self) -> dict[str, str]:
        places = [f"{self.directory}/pods/{phase}" for phase in PHASES]
        found = [name for place in places if os.path.isdir(place) for name in os.listdir(place)]
        assert len(found) == len(set(found)), "a pod is in two places"
        pods, problems = phases.list_pods(self.directory)
        for pod in pods:
            pod.close()
        assert problems == []
        return {pod.uuid: pod.state for pod in pods}

    def choose(self, number: int) -> str:
        """Return a pod, preferably one that still exists."""
        there = [uuid for uuid, state in self.states.items() if state != GONE] or list(self.states)
        return there[number % len(there)]

    def teardown(self) -> None:
        try:
            for runner in self.runners.values():
                runner.end(orderly=False)
            for _ in range(2):
                assert pod_processes.collect(self.directory, 0, 0, False).wait() == 0
            assert self.on_disk() == {}
        finally:
            pod_processes.end_all()
            shutil.rmtree(self.directory)


def names(one: Collection | Removal, uuid: str) -> bool:
    return isinstance(one, Collection) or one.uuid == uuid


def closure(state: str, discards: Iterable[Collection | Removal]) -> set[str]:
    """Return the possible states of a pod after these commands.

    They may have run in any order, and each of them may have skipped the pod.
    """
    discards = list(discards)
    found, pending = {state}, [state]
    while pending:
        at = pending.pop()
        for one in discards:
            for step in one.steps(at):
                if step not in found:
                    found.add(step)
                    pending.append(step)
    return found


def test_pods(isolated: None, pytestconfig: pytest.Config) -> None:
    factor = pytestconfig.getoption("--property-factor")
    run_state_machine_as_test(
        Pods,
        settings=settings(
            max_examples=25 * factor,
            stateful_step_count=30,
            derandomize=factor == 1,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            # Who wins a race is another one the next time: there is nothing to be made smaller.
            phases=[Phase.generate],
        ),
    )
