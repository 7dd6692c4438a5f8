"""Measure a pod's time to its first line of output, and the memory of idle pods.

Time is measured from the start of a command to the first line of the app's standard output, and to
the command's exit: for ``ocipod run``, ``ocictl run --rm``, ``podman run``, and ``podman pod
create`` followed by ``podman run`` in that pod. All have the same busybox image in their store and
no network.

Memory is the sum of PSS (/proc/PID/smaps_rollup) of the processes that a pod without an app keeps:
monitor, lock holder and init of ocipod, conmon and catatonit of podman, the shim of containerd with
a sleeping program in place of CRI's pause. The daemon of containerd is not counted. It is measured
twice: right after the pods are created, and once their processes have settled; ocipod's monitor
hibernates after five idle seconds.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from bench.document import Pods
from bench.place import Failed
from bench.pod_engines import MARK, Engine, engines
from tests.engines.command import await_end
from tests.support import processes

WARMUP = 2


@dataclass
class Times:
    """Milliseconds of one engine, round by round."""

    first_line: list[float] = field(default_factory=list)
    end: list[float] = field(default_factory=list)


def timed(command: list[str], env: dict[str, str], output: Path) -> tuple[float, float]:
    """Return the milliseconds to the line MARK on standard output, and to the exit.

    A command that fails ends the program with the command's output. The first number is 0 if the
    line is never printed.
    """
    reading, writing = os.pipe()
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, writing, 1),
        (os.POSIX_SPAWN_OPEN, 2, str(output), flags, 0o600),
    ]
    began = time.perf_counter_ns()
    pid = os.posix_spawn(command[0], command, env, file_actions=actions)
    os.close(writing)
    text, said = b"", began
    while said == began and (part := os.read(reading, 65536)):
        text += part
        if f"{MARK}\n".encode() in text:
            said = time.perf_counter_ns()
    await_end(pid)
    ended = time.perf_counter_ns()
    _, status = os.waitpid(pid, 0)
    os.close(reading)
    if status != 0:
        raise Failed(f"failed: {' '.join(command)}\n{output.read_text()}")
    return (said - began) / 1e6, (ended - began) / 1e6


def life(engine: Engine, output: Path) -> tuple[float, float]:
    """Run one pod and remove it; return both times from its first command on."""
    before = 0.0
    with engine.namespace.entered():
        *preparing, last = engine.commands()
        for command in preparing:
            before += timed(command, engine.env, output)[1]
        said, ended = timed(last, engine.env, output)
    if not said:
        raise Failed(f"no output: {' '.join(last)}\n{output.read_text()}")
    engine.clear()
    return before + said, before + ended


def measure_time(found: list[Engine], rounds: int, output: Path) -> list[Times]:
    """Return the times of each engine; another one begins each round."""
    times = [Times() for _ in found]
    for number in range(-WARMUP, rounds):
        for step in range(len(found)):
            at = (number + step) % len(found)
            said, ended = life(found[at], output)
            if number >= 0:
                times[at].first_line.append(said)
                times[at].end.append(ended)
    return times


def proportional_kib(pid: int) -> int:
    """Return the PSS of a process, 0 if it has ended or is the kernel's."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def program_of(pid: int) -> str:
    """Return the name that the kernel has for it."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def settled(before: set[int]) -> set[int]:
    """Return the processes that are new and stay: the same twice, a while apart."""
    last: set[int] = set()
    for _ in range(20):
        processes.reap_orphans()
        now = processes.descendants() - before
        if now and now == last:
            return now
        last = now
        time.sleep(0.5)
    return last


@dataclass
class Weight:
    """KiB of PSS for each idle pod: at first, then, and the programs that make up the latter."""

    first: float
    later: float
    parts: str


def measure_memory(engine: Engine, count: int) -> Weight:
    """Start ``count`` idle pods and weigh them; they go on."""
    processes.reap_orphans()
    before = processes.descendants()
    for number in range(count):
        engine.idle(number)
    found = settled(before)
    first = sum(proportional_kib(pid) for pid in found)
    engine.await_rest(found)
    parts: Counter[str] = Counter()
    for pid in found:
        parts[program_of(pid)] += proportional_kib(pid)
    words = [f"{name} {kib / count:.0f}" for name, kib in parts.most_common() if kib]
    return Weight(first / count, sum(parts.values()) / count, " + ".join(words))


def measure(
    programs: list[Path], theirs: str, place: Path, rounds: int, count: int, *, without: bool
) -> Pods:
    """Time and weigh the pods of each installation beside those of podman and containerd.

    ``count`` idle pods of each are weighed; those that start from a snapshot become the same.
    """
    with engines(programs, theirs, place, without=without) as found:
        timed_ones = [engine for engine in found if engine.measures_time]
        times = measure_time(timed_ones, rounds, place / "output")
        weighed = {
            engine.name: measure_memory(engine, count) for engine in found if engine.measures_memory
        }
    pairs = list(zip(timed_ones, times, strict=True))
    return {
        "first_line": {engine.name: one.first_line for engine, one in pairs},
        "end": {engine.name: one.end for engine, one in pairs},
        "idle_first": {name: weight.first for name, weight in weighed.items()},
        "idle_later": {name: weight.later for name, weight in weighed.items()},
        "idle_parts": {name: weight.parts for name, weight in weighed.items()},
    }
