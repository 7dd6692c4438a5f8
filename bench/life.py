"""Benchmark of a container's lifecycle, command by command, and of its waiting init's memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from bench.bundles import DOCKER, PLAIN, Bundles, that_ends
from bench.document import COMMANDS, Costs, Waiting
from bench.place import NAME, Cost, await_child
from bench.runtimes import Runtime

Subject = TypeVar("Subject")


def turns(subjects: list[Subject], rounds: int, warmup: int) -> Iterator[tuple[Subject, bool]]:
    """Yield pairs of a subject (a runtime) and whether the round counts, rotating the order.

    A disturbance of the machine then affects all subjects alike.
    """
    for number in range(-warmup, rounds):
        first = number % len(subjects)
        for subject in subjects[first:] + subjects[:first]:
            yield subject, number >= 0


class Container:
    """A container of a runtime, and the runtime's commands for it."""

    def __init__(self, runtime: Runtime, bundle: Path, name: str = NAME) -> None:
        self.runtime = runtime
        self.bundle = bundle
        self.name = name
        self.pid_file = bundle / f"{name}.pid"

    def create_words(self) -> list[str]:
        pid_file = str(self.pid_file)
        options = ["--bundle", str(self.bundle), "--pid-file", pid_file]
        return self.runtime.words("create", *options, self.name)

    def create(self) -> Cost:
        return self.runtime.spawn(*self.create_words())

    def call(self, command: str, *words: str) -> Cost:
        return self.runtime.spawn(*self.runtime.words(command, self.name, *words))

    @property
    def pid(self) -> int:
        return int(self.pid_file.read_text())

    def run(self) -> Cost:
        words = self.runtime.words("run", "--bundle", self.bundle, self.name)
        return self.runtime.spawn(*words)

    def end(self) -> Cost:
        """Kill and delete; return what ``delete`` costs."""
        self.call("kill", "KILL")
        await_child(self.pid)
        return self.call("delete")


def memory_of(pid: int) -> tuple[int, int]:
    """Return PSS and RSS of a process in KiB."""
    found = {"Pss": 0, "Rss": 0}
    with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name in found:
                found[name] = int(value.split()[0])
    return found["Pss"], found["Rss"]


def processor_time(pid: int) -> float:
    """Return the CPU time in milliseconds of a process's main thread, 0 if not available."""
    try:
        text = Path(f"/proc/{pid}/schedstat").read_text()
    except OSError:
        return 0.0
    return int(text.split()[0]) / 1e6


def live(container: Container, ending: Path, waiting: Waiting) -> dict[str, Cost]:
    """Take a container from create to delete, as an engine does; return the costs by command.

    Like an engine, this process reaps the container's init, and then calls delete. ``ending`` is
    the bundle for ``run``. Results about the created container are appended to ``waiting``.
    """
    found = {"create": container.create()}
    pid = container.pid
    pss, rss = memory_of(pid)
    created = processor_time(pid)
    for command, words in (("start", ()), ("state", ()), ("exec", ("true",))):
        found[command] = container.call(command, *words)
    runtime, name = container.runtime, container.name
    found["ps"] = runtime.spawn(*runtime.words("ps", "--format", "json", name))
    for command, words in (("pause", ()), ("resume", ()), ("kill", ("KILL",))):
        found[command] = container.call(command, *words)
    ended = await_child(pid)
    found["delete"] = container.call("delete")
    found["run"] = Container(container.runtime, ending, f"{NAME}-run").run()
    for values, value in ((waiting["pss"], pss), (waiting["rss"], rss)):
        values.append(value)
    waiting["cpu_created"].append(created)
    waiting["cpu_ended"].append(ended)
    return found


def no_waiting() -> Waiting:
    """Return a result without values."""
    return {"pss": [], "rss": [], "cpu_created": [], "cpu_ended": []}


def measure(
    runtimes: list[Runtime], bundles: Bundles, rounds: int, warmup: int
) -> tuple[dict[str, dict[str, dict[str, Costs]]], dict[str, Waiting]]:
    """Measure lifecycles with both configurations, and created containers with the plain one.

    Return bundle -> runtime -> command -> costs, and runtime -> results of created containers.
    """
    costs: dict[str, dict[str, dict[str, Costs]]] = {}
    waiting: dict[str, dict[str, Waiting]] = {}
    for kind, config in ((PLAIN, bundles.plain), (DOCKER, bundles.docker)):
        bundle = bundles.write(kind, config)
        ending = bundles.write(f"{kind}-run", that_ends(config))
        costs[kind] = {
            runtime.name: {name: Costs(wall=[], cpu=[], faults=[], memory=[]) for name in COMMANDS}
            for runtime in runtimes
        }
        waiting[kind] = {runtime.name: no_waiting() for runtime in runtimes}
        for runtime, counts in turns(runtimes, rounds, warmup):
            seen = waiting[kind][runtime.name] if counts else no_waiting()
            found = live(Container(runtime, bundle), ending, seen)
            for command, cost in found.items() if counts else ():
                _add(costs[kind][runtime.name][command], cost)
    return costs, waiting[PLAIN]


def _add(costs: Costs, cost: Cost) -> None:
    costs["wall"].append(cost.wall)
    costs["cpu"].append(cost.cpu)
    costs["faults"].append(cost.faults)
    costs["memory"].append(cost.memory)


def floor(runtimes: list[Runtime], rounds: int) -> dict[str, Costs]:
    """Measure the minimum that a command costs: ``busybox true``, a static program.

    Then each runtime's `list` without containers, which does little besides starting.
    """
    busybox = os.path.realpath("/bin/busybox")
    commands = {"busybox true": (runtimes[0], [busybox, "true"])}
    for runtime in runtimes:
        runtime.empty_root()
        commands[f"{runtime.name}: list"] = (runtime, runtime.words("list"))
    found: dict[str, Costs] = {}
    for _ in range(rounds):
        for name, (runtime, words) in commands.items():
            costs = found.setdefault(name, Costs(wall=[], cpu=[], faults=[], memory=[]))
            _add(costs, runtime.spawn(*words))
    return found
