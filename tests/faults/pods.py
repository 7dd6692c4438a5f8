"""The sweep of ``ocipod``: its commands, their initial state, and what they may leave behind."""

from __future__ import annotations

import fcntl
import json
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.faults import judging, surroundings
from tests.faults.running import FAIL, INTERRUPT, KILL, Runner
from tests.faults.stepping import Outcome, finish
from tests.faults.surroundings import Surroundings
from tests.support import cgroupfs, network_host, processes
from tests.support.ocipod import PHASES, Ocipod, states
from tests.support.pod_images import busybox

APP = "web"
WAITING = ("close", "poll", "ppoll")  # what a process does last before it waits for events
INTERRUPTED = (-signal.SIGINT, 128 + signal.SIGINT)
STOP = ("stop", "--force", "--wait")
GC = ("gc", "--grace-period=0s", "--expire-prepared=0s")
IMAGE_GC = ("image", "gc")
NO_IMAGES = (*IMAGE_GC, "--grace-period=0s")


class PodStage:
    """Data directories of ``ocipod``: one with an unpacked image, and one without images."""

    def __init__(self, program: Path, base: Path) -> None:
        base.mkdir()
        self.image = busybox(base)
        self.full = _ocipod(program, base / "full")
        self.empty = _ocipod(program, base / "empty")
        self.ocipod = self.full  # whose command is run
        self.uuid = ""  # the pod that there is before the command
        for one in (self.full, self.empty):
            self.ocipod = one
            # Networks, locks and compiled filters stay: no later look may find them new.
            self.do("run", self.image, "--exec=/bin/true")
            self.do(*GC)
        self.do(*NO_IMAGES)

    def do(self, *words: str) -> Outcome:
        """Run a command without the stepper; it must succeed."""
        done = finish(self.ocipod.command(*words))
        if done.status != 0:
            raise RuntimeError(f"{words}: status {done.status}: {done.err}")
        return done

    def make(self, *words: str) -> None:
        """Run a command that creates a pod and prints its UUID."""
        self.uuid = self.do(*words).out.strip()

    def look(self) -> Surroundings:
        files: set[str] = set()
        cgroups: set[Path] = set()
        for one in (self.full, self.empty):
            one.look()
            files |= {str(path) for path in one.directory.rglob("*") if not _is_tree(path)}
            cgroups |= {place for uuid in one.seen for place in one.cgroups(uuid)}
        return surroundings.look(cgroups, files, network_host.rule_lines())


def _ocipod(program: Path, directory: Path) -> Ocipod:
    one = Ocipod(directory, program)
    one.program = program.with_name("ocipod")
    for phase in PHASES:
        (directory / "pods" / phase).mkdir(parents=True)
    return one


def _is_tree(path: Path) -> bool:
    """Return whether the path is a file of an image's tree, which is represented by the tree."""
    return "rootfs" in path.parts


def absent(stage: PodStage) -> None:
    """Set up no pod."""


def prepared(stage: PodStage) -> None:
    stage.make("prepare", "--quiet", stage.image, "--exec=/bin/true")


def exited(stage: PodStage) -> None:
    prepared(stage)
    stage.do("run-prepared", "--net=none", stage.uuid)


def running(stage: PodStage) -> None:
    stage.make("run", "--net=none", "--detach", stage.image, "--exec=/bin/sleep", "--", "1000")


def killed(stage: PodStage) -> None:
    """Set up a pod in a network whose monitor was killed: nothing has cleaned up."""
    stage.make("run", "--detach", stage.image, "--exec=/bin/sleep", "--", "1000")
    monitor = stage.ocipod.monitor(stage.uuid)["pid"]
    os.kill(monitor, signal.SIGKILL)

    def has_exited() -> bool:
        processes.reap_orphans()
        return stage.ocipod.state(stage.uuid) == "exited"

    if not processes.until(has_exited, 20):
        raise RuntimeError(f"pod {stage.uuid} is {stage.ocipod.state(stage.uuid)}")


def sandbox(stage: PodStage) -> None:
    stage.make("app", "sandbox", "--detach", "--net=none")


def added(stage: PodStage) -> None:
    sandbox(stage)
    words = (f"--name={APP}", "--exec=/bin/sleep", "--", "1000")
    stage.do("app", "add", stage.uuid, stage.image, *words)


def started(stage: PodStage) -> None:
    added(stage)
    stage.do("app", "start", stage.uuid, f"--app={APP}")


def fetched(stage: PodStage) -> None:
    stage.do("fetch", stage.image)


@dataclass(frozen=True)
class PodScenario:
    """One command of ``ocipod``; ``words`` may contain {image} and {uuid}."""

    name: str
    before: Callable[[PodStage], None]
    words: tuple[str, ...]
    state: str = ""  # of the only pod after success; "": there is none
    app: str | None = None  # the state of the app after success; "": it is gone
    images: int | None = None  # the command is about images: how many there are after success
    snapshot: bool = True

    def command(self, stage: PodStage) -> list[str]:
        values = {"image": stage.image, "uuid": stage.uuid}
        return stage.ocipod.command(*(word.format(**values) for word in self.words))


RUN = ("run", "--net=none", "{image}", "--exec=/bin/true")
DETACHED = ("run", "--net=none", "--detach", "{image}", "--exec=/bin/sleep", "--", "1000")
IN_NETWORK = ("run", "{image}", "--exec=/bin/true")
SANDBOX = ("app", "sandbox", "--detach", "--net=none")
ADD = ("app", "add", "{uuid}", "{image}", f"--name={APP}", "--exec=/bin/true")
OF_APP = ("{uuid}", f"--app={APP}")

POD_SCENARIOS = (
    PodScenario("pod-prepare", absent, ("prepare", "--quiet", "{image}"), "prepared"),
    PodScenario("pod-run", absent, RUN, "exited"),
    PodScenario("pod-run-detached", absent, DETACHED, "running"),
    PodScenario("pod-run-network", absent, IN_NETWORK, "exited"),
    PodScenario("pod-run-prepared", prepared, ("run-prepared", "--net=none", "{uuid}"), "exited"),
    PodScenario("pod-stop", running, ("stop", "--wait", "{uuid}"), "exited"),
    PodScenario("pod-stop-force", running, (*STOP, "{uuid}"), "exited"),
    PodScenario("pod-rm", exited, ("rm", "{uuid}")),
    PodScenario("pod-gc", exited, GC),
    PodScenario("pod-rm-killed", killed, ("rm", "{uuid}")),
    PodScenario("pod-gc-killed", killed, GC),
    PodScenario("app-sandbox", absent, SANDBOX, "running"),
    PodScenario("app-add", sandbox, ADD, "running", "prepared"),
    PodScenario("app-start", added, ("app", "start", *OF_APP), "running", "running"),
    PodScenario("app-stop", started, ("app", "stop", *OF_APP), "running", "exited"),
    PodScenario("app-rm", added, ("app", "rm", *OF_APP), "running", ""),
    PodScenario("app-rm-running", started, ("app", "rm", *OF_APP), "running", ""),
    PodScenario("image-fetch", absent, ("fetch", "{image}"), images=1),
    PodScenario("image-run", absent, RUN, "exited", images=1),
    PodScenario("image-gc", fetched, NO_IMAGES, images=0),
)
PODS_BY_NAME = {one.name: one for one in POD_SCENARIOS}


class PodRunner(Runner[PodScenario]):
    """Runs commands of ``ocipod`` on a stage."""

    def __init__(self, stage: PodStage, stepper: Path) -> None:
        super().__init__(stepper)
        self.stage = stage

    def look(self) -> Surroundings:
        return self.stage.look()

    def arrange(self, scenario: PodScenario) -> None:
        self.stage.ocipod = self.stage.full if scenario.images is None else self.stage.empty
        self.stage.ocipod.seen.clear()
        scenario.before(self.stage)

    def command(self, scenario: PodScenario) -> list[str]:
        return scenario.command(self.stage)

    def judge(
        self, kind: str, scenario: PodScenario, before: Surroundings, outcome: Outcome
    ) -> list[str]:
        problems = ["the command hangs"] if outcome.hung else []
        if kind == INTERRUPT and outcome.status in INTERRUPTED:
            problems += judging.not_silent(outcome)
        elif kind != KILL and outcome.status not in (0, None):
            problems += judging.unclear(outcome)
        # An error about a single pod does not change the exit status of gc.
        if outcome.status == 0 and not (scenario.words == GC and "ocipod:" in outcome.err):
            missing = _incomplete(self.stage, scenario)
            if missing and kind == KILL and self._is_waiting(scenario, outcome):
                # The pod was ready, and may have exited since.
                missing = _incomplete(self.stage, replace(scenario, state="exited"))
            problems += [f"success, but {line}" for line in missing]
        problems += surroundings.settled(lambda: contradictions(self.stage, before))
        if kind == FAIL:
            problems += self._not_undone(scenario, before, outcome)
        if scenario.app is not None and outcome.status != 0:
            # The monitor may still be carrying out a request whose answer was not received.
            problems += surroundings.settled(lambda: _unusable(self.stage))
        problems += self.cleaned(scenario, before)
        return problems or self.repeated(scenario, before)

    def _is_waiting(self, scenario: PodScenario, outcome: Outcome) -> bool:
        """Return whether the killed process had done everything but wait for events."""
        if not outcome.calls or outcome.calls[0].call not in WAITING:
            return False
        killed = outcome.calls[0]
        every = [one.index for one in self.calls(scenario) if one.process == killed.process]
        return killed.index >= max(every, default=0) - len(WAITING)

    def _not_undone(
        self, scenario: PodScenario, before: Surroundings, outcome: Outcome
    ) -> list[str]:
        """Return what the command should have undone, and has not mentioned.

        Files that a failed command leaves in the data directory are removed by ``gc``.
        """
        if outcome.status != 0 and scenario.before is absent:
            running_pods = [
                pod["name"] for pod in _list(self.stage)[0] if pod["state"] == "running"
            ]
            named = [uuid for uuid in running_pods if f"ocipod stop {uuid}" in outcome.err]
            return [f"failed, but pod {uuid} runs" for uuid in running_pods if uuid not in named]
        if outcome.status != 0 or outcome.err or scenario.state in ("running", "prepared"):
            return []
        keeps = bool(scenario.state or scenario.images)

        def left() -> list[str]:
            new = surroundings.new(before, self.look())
            kept = f"file {self.stage.ocipod.directory}"
            return [line for line in new if not (keeps and line.startswith(kept))]

        return [f"success, but left: {line}" for line in surroundings.settled(left)]

    def cleaned(self, scenario: PodScenario, before: Surroundings) -> list[str]:
        """Clean up like a user; return what is wrong with that and what is left behind."""
        problems = _clean(self.stage, scenario)
        problems += [f"left: {line}" for line in surroundings.left(self.look, before)]
        seen = self.stage.ocipod.seen
        problems += [f"left: state {path}" for uuid in seen for path in states(uuid)]
        if problems:
            surroundings.clear(self.look, before)
        return problems

    def repeated(self, scenario: PodScenario, before: Surroundings) -> list[str]:
        """Run the same command once more, undisturbed."""
        self.arrange(scenario)
        done = finish(self.command(scenario))
        problems = [] if done.status == 0 else [f"status {done.status}: {done.err.strip()}"]
        problems += _incomplete(self.stage, scenario) or self.cleaned(scenario, before)
        return [f"when repeated: {line}" for line in problems]


def _clean(stage: PodStage, scenario: PodScenario) -> list[str]:
    """Stop running pods, and collect all garbage; return what is wrong with that."""
    stage.ocipod.look()  # the last moment at which they can be seen
    alive = [pod["name"] for pod in _list(stage)[0] if pod["state"] == "running"]
    commands = [(*STOP, *alive)] if alive else []
    commands += [GC, IMAGE_GC if scenario.images is None else NO_IMAGES]
    problems = []
    for words in commands:
        done = finish(stage.ocipod.command(*words))
        if done.hung:
            problems.append(f"{' '.join(words)} hangs")
        elif done.status != 0 or "ocipod:" in done.err:
            problems.append(f"{' '.join(words)}: status {done.status}: {done.err.strip()}")
    return problems


def _list(stage: PodStage) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the output of ``list``, and what is wrong with it."""
    done = finish(stage.ocipod.command("list", "--format=json"))
    if done.status != 0 or done.err:
        return [], [f"list: status {done.status}: {done.err.strip()}"]
    return json.loads(done.out), []


def _incomplete(stage: PodStage, scenario: PodScenario) -> list[str]:
    """Return what a successful command has not done."""
    pods, problems = _list(stage)
    found = [pod["state"] for pod in pods]
    if found != [scenario.state] * bool(scenario.state):
        problems.append(f"the pods are {found}")
    elif scenario.app is not None:
        apps = [app["state"] for app in pods[0]["apps"]]
        if apps != [scenario.app] * bool(scenario.app):
            problems.append(f"the apps are {apps}")
    if scenario.images is not None:
        images = json.loads(stage.do("image", "list", "--format=json").out)
        if len(images) != scenario.images:
            problems.append(f"there are {len(images)} images")
    return problems


def _unusable(stage: PodStage) -> list[str]:
    """Return why the app cannot be removed and added again, in a pod that still runs."""
    if [pod["state"] for pod in _list(stage)[0]] != ["running"]:
        return []
    problems = []
    done = finish(stage.ocipod.command("app", "rm", stage.uuid, f"--app={APP}"))
    if done.status != 0 and "has no app" not in done.err:
        problems.append(f"app rm: status {done.status}: {done.err.strip()}")
    words = ("app", "add", stage.uuid, stage.image, f"--name={APP}", "--exec=/bin/true")
    done = finish(stage.ocipod.command(*words))
    if done.status != 0:
        problems.append(f"app add: status {done.status}: {done.err.strip()}")
    return problems


# States of pods that last only as long as a command.
_PASSING = ("preparing", "exited deleting", "deleting")


def contradictions(stage: PodStage, before: Surroundings) -> list[str]:
    """Return in what ``list`` and ``status`` contradict the kernel and each other."""
    pods, problems = _list(stage)
    alive = processes.descendants() - before.processes
    is_running = False
    for pod in pods:
        uuid, state = pod["name"], pod["state"]
        is_running = is_running or state == "running"
        if state in _PASSING:
            problems.append(f"pod {uuid} stays {state}")
        if state == "running" and pod.get("pid") not in alive:
            problems.append(f"pod {uuid} is said to run, but its init is not alive")
        if state != "embryo":
            done = finish(stage.ocipod.command("status", uuid))
            if f"state={state}" not in done.out.splitlines():
                problems.append(f"pod {uuid} is {state}, but status: {done.out} {done.err}")
        problems += [line for app in pod["apps"] for line in _app_contradictions(uuid, app)]
    if alive and not is_running:
        problems += [f"no pod is said to run, but {processes.describe(pid)} does" for pid in alive]
    return problems + [f"lock {path} is held" for path in _held(stage.ocipod.directory)]


def _app_contradictions(uuid: str, app: dict[str, Any]) -> list[str]:
    places = {top / f"ocipod-{uuid}" / app["name"] for top in cgroupfs.hierarchies().values()}
    files = [place / "cgroup.procs" for place in places]
    alive = any(file.read_text().strip() for file in files if file.exists())
    if alive and app["state"] in ("exited", "prepared"):
        return [f"app {app['name']} is said to be {app['state']}, but has processes"]
    if not alive and app["state"] in ("running", "stopping"):
        return [f"app {app['name']} is said to be {app['state']}, but has no process"]
    return []


def _held(directory: Path) -> list[Path]:
    """Return the locks that a process holds, except those of pods, which are their state."""
    found = []
    for place in (directory / "locks", directory / "cas" / "locks"):
        for path in place.iterdir() if place.is_dir() else ():
            fd = os.open(path, os.O_RDONLY)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                found.append(path)
            finally:
                os.close(fd)
    return found
