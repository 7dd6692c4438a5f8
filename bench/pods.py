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
from bench.life import turns
from bench.place import Failed
from bench.pod_engines import MARK, Engine, engines
from tests.engines.command import await_end
from tests.support import processes

WARMUP = 2


@dataclass
class Times:
    """Milliseconds of one engine until the app's first line and until the end, by round."""

    first_line: list[float] = field(default_factory=list)
    end: list[float] = field(default_factory=list)


def timed(command: list[str], env: dict[str, str], output: Path) -> tuple[float, float]:
    """Run a command; return the milliseconds to the line MARK on standard output, and to the exit.

    The first number is 0 if the line is never printed. Raises Failed with the command's standard
    error (in the file ``output``) if it fails.
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
    text, printed = b"", began
    while printed == began and (part := os.read(reading, 65536)):
        text += part
        if f"{MARK}\n".encode() in text:
            printed = time.perf_counter_ns()
    await_end(pid)
    ended = time.perf_counter_ns()
    _, status = os.waitpid(pid, 0)
    os.close(reading)
    if status != 0:
        raise Failed(f"{' '.join(command)}: failed:\n{output.read_text()}")
    return (printed - began) / 1e6, (ended - began) / 1e6


def life(engine: Engine, output: Path) -> tuple[float, float]:
    """Run one pod and remove it; return both times, from the start of its first command."""
    before = 0.0
    with engine.namespace.entered():
        *preparing, last = engine.commands()
        for command in preparing:
            before += timed(command, engine.env, output)[1]
        printed, ended = timed(last, engine.env, output)
    if not printed:
        raise Failed(f"{' '.join(last)}: did not print {MARK}:\n{output.read_text()}")
    engine.clear()
    return before + printed, before + ended


def measure_time(found: list[Engine], rounds: int, output: Path) -> list[Times]:
    """Return the times of each engine; each round starts with a different one."""
    times = [Times() for _ in found]
    for (engine, own), counts in turns(list(zip(found, times, strict=True)), rounds, WARMUP):
        printed, ended = life(engine, output)
        if counts:
            own.first_line.append(printed)
            own.end.append(ended)
    return times


def proportional_kib(pid: int) -> int:
    """Return the PSS of a process in KiB, 0 if it has exited or is a kernel thread."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def program_of(pid: int) -> str:
    """Return a process's name (comm), "" if it has exited."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def settled(before: set[int]) -> set[int]:
    """Return the new descendants once they are the same for half a second, at most 10 seconds."""
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
    """PSS in KiB per idle pod: after its start, once settled, and the latter by program."""

    first: float
    later: float
    parts: str


def measure_memory(engine: Engine, count: int) -> Weight:
    """Start ``count`` idle pods, which keep running, and measure their memory."""
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
    """Measure times and idle memory of each installation, and of podman and containerd.

    ``programs`` are the directories of the installations, ``theirs`` the runtime for the others,
    ``count`` the number of idle pods, ``without``: measure also without the snapshot.
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
