"""The sweep of the daemon ``ocid``: killed at its calls, or each of them fails, while it serves.

Meanwhile a client creates, runs or removes one container.  Then the daemon is started again on the
same directories: the container must exist completely or not at all.
"""

from __future__ import annotations

import dataclasses
import http.client
import os
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

from tests.faults import judging, surroundings
from tests.faults.running import FAIL, KILL, Runner
from tests.faults.stepping import (
    ALL,
    COMMAND,
    FIRST,
    LIST,
    Action,
    Boundary,
    Outcome,
    Stepped,
    finish,
    step,
)
from tests.faults.surroundings import Surroundings
from tests.support import processes, rootfs
from tests.support.daemon import Daemon
from tests.support.ocipod import PHASES, states

NAME = "c"
STARTING = 60.0  # seconds
WAITING = 40  # seconds that a client does nothing, while the daemon is stepped
SNAPSHOTS = "/run/ociruntime/.snapshot"
# Not about a container: the log of events, and what is made once.
KEPT = ("events.jsonl", "ocid.log")


class DaemonStage:
    """The directories of a daemon; the root filesystem of its containers is a directory."""

    def __init__(self, program: Path, base: Path) -> None:
        base.mkdir()
        base.chmod(0o755)
        self.tree = base / "tree"
        busybox = base / "busybox"
        shutil.copy(rootfs.BUSYBOX, busybox)
        rootfs.build(self.tree, {"bin/busybox": busybox})
        self.daemon = Daemon(base)
        self.daemon.pods.runtime = program
        self.daemon.pods.program = program.with_name("ocipod")
        self.ocid, self.ocictl = program.with_name("ocid"), program.with_name("ocictl")
        for phase in PHASES:
            (self.daemon.pods.directory / "pods" / phase).mkdir(parents=True)
        # Directories, networks and compiled filters stay: no later look may find them new.
        self.start()
        for words in (CREATE, START, REMOVE):
            self.do(*words)
        self.daemon.stop()

    def command(self) -> list[str]:
        """Return the command line of the daemon."""
        return [str(self.ocid), *self.daemon.command()[1:]]

    def start(self) -> None:
        """Start the daemon without the stepper."""
        self.daemon.start(program=self.ocid)

    def client(self, *words: str) -> Outcome:
        """Run a command of ``ocictl``."""
        words = tuple(word.replace("{tree}", str(self.tree)) for word in words)
        command = [str(self.ocictl), f"--socket={self.daemon.socket}", *words]
        done = finish(command, idle_seconds=WAITING)
        self.daemon.pods.look()
        return done

    def do(self, *words: str) -> Outcome:
        """Run a command of ``ocictl``, which must succeed."""
        done = self.client(*words)
        if done.status != 0:
            raise RuntimeError(f"{words}: status {done.status}: {done.err}")
        return done

    def look(self) -> Surroundings:
        daemon = self.daemon
        daemon.pods.look()
        files = {
            str(path)
            for top in (daemon.root, daemon.pods.directory)
            for path in top.rglob("*")
            if "rootfs" not in path.parts and path.name not in KEPT
        }
        cgroups = {place for uuid in daemon.pods.seen for place in daemon.pods.cgroups(uuid)}
        found = surroundings.look(cgroups, files)
        # A daemon without a snapshot makes one in the background, at any time.
        lasting = {path for path in found.files if not path.startswith(SNAPSHOTS)}
        return dataclasses.replace(found, files=frozenset(lasting))


CREATE = ("create", "--name", NAME, "--network=none", "--rootfs", "{tree}", "/bin/sleep", "1000")
RUN = ("run", "--detach", *CREATE[1:])
START = ("start", NAME)
REMOVE = ("rm", "--force", NAME)


@dataclass(frozen=True)
class DaemonScenario:
    """One request of a client, during which the daemon is stepped."""

    name: str
    before: tuple[tuple[str, ...], ...]  # commands of another daemon
    words: tuple[str, ...]
    statuses: tuple[str, ...]  # that the container may have afterwards, if it is there
    removes: bool = False
    snapshot: bool = True


DAEMON_SCENARIOS = (
    DaemonScenario("ocid-create", (), CREATE, ("created",)),
    DaemonScenario("ocid-run", (), RUN, ("created", "running")),
    DaemonScenario("ocid-rm", (RUN,), REMOVE, ("running", "exited"), removes=True),
)
DAEMONS_BY_NAME = {one.name: one for one in DAEMON_SCENARIOS}


class DaemonRunner(Runner[DaemonScenario]):
    """Steps a daemon while a client sends it a request."""

    def __init__(self, stage: DaemonStage, stepper: Path) -> None:
        super().__init__(stepper)
        self.stage = stage
        self.request: Outcome | None = None  # how the client's command has ended
        self.problems: list[str] = []  # what was wrong while the daemon was running
        self.span = (0, 0)  # the lines of the stepper's log that are of the request

    def look(self) -> Surroundings:
        return self.stage.look()

    def arrange(self, scenario: DaemonScenario) -> None:
        self.stage.daemon.pods.seen.clear()
        if scenario.before:
            self.stage.start()
            for words in scenario.before:
                self.stage.do(*words)
            self.stage.daemon.stop()

    def command(self, scenario: DaemonScenario) -> list[str]:
        return self.stage.command()

    def kills(self, calls: list[Boundary], victims: tuple[str, ...]) -> list[Action]:
        return [
            Action(KILL, victim, one.process, one.index)
            for victim in victims
            for one in calls
            if victim in (COMMAND, ALL)
        ]

    def list_calls(self, scenario: DaemonScenario) -> list[Boundary]:
        """Return the daemon's own calls during the request, except those of its threads."""
        found = super().list_calls(scenario)[slice(*self.span)]
        if self.request is None or self.request.status != 0:
            raise RuntimeError(f"{scenario.name} undisturbed: {self.request}")
        return [one for one in found if one.process == FIRST]

    def run_stepped(self, scenario: DaemonScenario, action: Action) -> Outcome:
        self.request = None
        self.problems.clear()
        self.arrange(scenario)

        def use(stepped: Stepped) -> None:
            if not processes.until(lambda: stepped.has_ended or self._answers(), STARTING):
                self.problems.append("the daemon does not answer")
            elif not stepped.has_ended:
                first = stepped.lines
                self.request = self.stage.client(*scenario.words)
                self.span = (first, stepped.lines)
                if action.kind in (FAIL, LIST) and not stepped.has_ended:
                    self._goes_on(scenario)
            for pid in stepped.pids:
                os.kill(pid, signal.SIGTERM)

        return step(self.stepper, action, self.command(scenario), use)

    def _answers(self) -> bool:
        try:
            return self.stage.daemon("GET", "/v1/ping", timeout=5).status == 200
        except (OSError, http.client.HTTPException):
            return False

    def _goes_on(self, scenario: DaemonScenario) -> None:
        """Return what is wrong with a daemon after a failed call: it must keep running."""
        assert self.request is not None
        done = self.stage.client("ps", "--all", "--format={{.Names}} {{.State}}")
        if done.hung or done.status != 0:
            self.problems.append(f"afterwards: ps: status {done.status}: {done.err}")
        if self.request.status == 0:
            return
        again = self.stage.client(*scenario.words)
        if again.status == 0 or "already" in again.err or "in use" in again.err:
            return
        if not (scenario.removes and "no such" in again.err.lower()):
            self.problems.append(f"afterwards: {scenario.words[0]}: {again.err}")

    def judge(
        self, kind: str, scenario: DaemonScenario, before: Surroundings, outcome: Outcome
    ) -> list[str]:
        problems = list(self.problems)
        if outcome.hung:
            problems.append("the daemon hangs")
        elif kind == FAIL and outcome.status != 0:
            problems.append(f"the daemon ends with {outcome.status}: {outcome.err[-600:]}")
        if "Traceback" in outcome.err or "internal error" in outcome.err:
            problems.append(f"the daemon's log: {outcome.err[-900:]}")
        if self.request is not None and self.request.hung:
            problems.append("the client hangs")
        elif self.request is not None and self.request.status != 0:
            problems += judging.unclear(self.request)
        try:
            problems += self._restarted(scenario)
        finally:
            if self.stage.daemon.process is not None:
                self.stage.daemon.stop()
        finish(self.stage.daemon.pods.command("image", "gc"))  # what a killed import has left
        problems += [f"left: {line}" for line in surroundings.left(self.look, before)]
        seen = self.stage.daemon.pods.seen
        problems += [f"left: state {path}" for uuid in seen for path in states(uuid)]
        if problems:
            surroundings.clear(self.look, before)
        return problems

    def _restarted(self, scenario: DaemonScenario) -> list[str]:
        """Start another daemon on the directories; return what is wrong with the container."""
        try:
            self.stage.start()
        except AssertionError as error:
            return [f"the daemon does not start again: {error}"]
        found: list[str] = []

        def contradictions() -> list[str]:
            containers = self.stage.daemon.list()
            pods = [uuid for uuid in self.stage.daemon.pods.pods() if len(uuid) == 36]
            found[:] = [str(one["status"]) for one in containers]
            return [] if len(pods) == len(found) else [f"{len(found)} containers, pods {pods}"]

        problems = surroundings.settled(contradictions)
        answered = self.request is not None and self.request.status == 0
        if found and answered and scenario.removes:
            problems.append("the removed container is there")
        if not found and answered and not scenario.removes:
            problems.append("the created container is gone")
        if bad := [status for status in found if status not in scenario.statuses]:
            problems.append(f"the container is {bad}")
        names = self.stage.client("ps", "--all", "--format={{.Names}}").out.split()
        if names != [NAME] * len(found):
            problems.append(f"ps --all has {names}, the daemon {found}")
        return problems + self._usable(found)

    def _usable(self, found: list[str]) -> list[str]:
        """Return why the container, or another one of the same name, cannot be used."""
        commands: list[tuple[str, ...]] = []
        if found:
            commands = [REMOVE] if found[0] == "running" else [START, REMOVE]
        problems = []
        for words in (*commands, RUN, REMOVE):
            done = self.stage.client(*words)
            if done.status != 0:
                problems.append(f"{words[0]} afterwards: status {done.status}: {done.err.strip()}")
        return problems
