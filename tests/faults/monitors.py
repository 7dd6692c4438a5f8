"""The sweep of a pod's monitor: its own calls, after the command that started it has exited.

While it serves requests and hibernates in between, it is killed before a call, or the call fails.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from tests.faults import judging, pods, surroundings
from tests.faults.pods import APP, PodRunner, PodScenario, PodStage, absent
from tests.faults.running import KILL
from tests.faults.stepping import ALL, COMMAND, Action, Boundary, Outcome, Stepped, finish, step
from tests.faults.surroundings import Surroundings
from tests.support import processes

IDLE = ("idle",)  # wait until the monitor hibernates
IDLE_SECONDS = "0.3"
WAITING = 40  # seconds that a client does nothing, while the monitor is stepped
DEEPEST = 2  # the monitor is 0.1, its children 0.1.1: what they start is swept elsewhere

REQUESTS = (
    ("app", "add", "{uuid}", "{image}", f"--name={APP}", "--exec=/bin/sleep", "--", "1000"),
    ("app", "start", "{uuid}", f"--app={APP}"),
    IDLE,
    ("app", "exec", "{uuid}", f"--app={APP}", "/bin/true"),
    ("app", "stop", "{uuid}", f"--app={APP}"),
    ("app", "start", "{uuid}", f"--app={APP}"),
    ("app", "rm", "{uuid}", f"--app={APP}"),
)
END = ("stop", "--wait", "{uuid}")

SANDBOX = PodScenario("monitor", absent, pods.SANDBOX, "running")
MONITORS_BY_NAME = {SANDBOX.name: SANDBOX}


class MonitorRunner(PodRunner):
    """Starts a sandbox, sends it requests and stops it; steps its monitor."""

    def __init__(self, stage: PodStage, stepper: Path) -> None:
        super().__init__(stage, stepper)
        self.done: list[tuple[str, Outcome]] = []  # each request and how it ended
        self.problems: list[str] = []  # what was wrong before the pod was stopped
        self.before = self.look()

    def run_stepped(self, scenario: PodScenario, action: Action) -> Outcome:
        self.done.clear()
        self.problems.clear()
        self.before = self.look()
        self.arrange(scenario)
        os.environ["OCIPOD_IDLE_TIMEOUT"] = IDLE_SECONDS
        try:
            return step(self.stepper, action, self.command(scenario), self._use, follow=True)
        finally:
            del os.environ["OCIPOD_IDLE_TIMEOUT"]

    def list_calls(self, scenario: PodScenario) -> list[Boundary]:
        found = super().list_calls(scenario)
        failed = [f"{request}: {done.err}" for request, done in self.done if done.status != 0]
        if failed:
            raise RuntimeError(f"{scenario.name} undisturbed: {failed}")
        return [one for one in found if one.process.count(".") <= DEEPEST]

    def kills(self, calls: list[Boundary], victims: tuple[str, ...]) -> list[Action]:
        """Return the kills of the process that makes the call, or of all; the command has ended."""
        return [
            Action(KILL, victim, one.process, one.index)
            for victim in victims
            if victim != COMMAND
            for one in calls
            if one.process.count(".") == 1 or victim == ALL
        ]

    def _use(self, stepped: Stepped) -> None:
        """Send the requests to the pod, and end it; some fail if the monitor was disturbed."""
        if not processes.until(lambda: stepped.has_ended, 60):
            return  # it is judged as a hang
        uuid = os.pread(stepped.out.fileno(), 100, 0).decode().strip()
        if not uuid:
            return
        self.stage.uuid = uuid
        for words in REQUESTS:
            if words == IDLE:
                processes.until(self._is_idle, 3)
            else:
                self._request(words)
        own = frozenset({stepped.process.pid})
        before = dataclasses.replace(self.before, processes=self.before.processes | own)
        self.problems += surroundings.settled(lambda: pods.contradictions(self.stage, before))
        self._request(END)

    def _is_idle(self) -> bool:
        pid = self.stage.ocipod.monitor(self.stage.uuid).get("pid", 0)
        try:
            return b"(idle)" in Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return True  # it was killed

    def _request(self, words: tuple[str, ...]) -> None:
        values = {"image": self.stage.image, "uuid": self.stage.uuid}
        command = self.stage.ocipod.command(*(word.format(**values) for word in words))
        self.done.append((" ".join(words[:2]), finish(command, idle_seconds=WAITING)))

    def judge(
        self, kind: str, scenario: PodScenario, before: Surroundings, outcome: Outcome
    ) -> list[str]:
        problems = ["the monitor hangs"] if outcome.hung else []
        for request, done in [(scenario.name, outcome), *self.done]:
            if done.hung and done is not outcome:
                problems.append(f"{request} hangs")
            elif done.status:
                problems += [f"{request}: {line}" for line in judging.unclear(done)]
        problems += self.problems
        problems += surroundings.settled(lambda: pods.contradictions(self.stage, before))
        problems += self._unclear_log()
        problems += self.cleaned(scenario, before)
        return problems or self.repeated(scenario, before)

    def _unclear_log(self) -> list[str]:
        """Return what is wrong with the messages of the monitor."""
        try:
            text = (self.stage.ocipod.path(self.stage.uuid) / "monitor.log").read_text()
        except (OSError, AssertionError):
            return []
        bad = "Traceback" in text or "internal error" in text
        return [f"monitor.log: {text}"] if bad else []
