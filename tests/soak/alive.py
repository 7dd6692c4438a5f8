"""Many containers at once: alive, and created concurrently."""

from __future__ import annotations

import math
import os
import statistics
from pathlib import Path
from typing import Any

from bench.life import memory_of
from tests.soak.subjects import Subject, clear, left, look
from tests.support import processes

REPEATED = 10  # calls of `list` and of `state`, of which the median counts
SPREAD = 20  # containers whose `state` is asked, spread over all


def alive(subject: Subject, count: int) -> dict[str, Any]:
    """Keep ``count`` containers alive; return times in milliseconds and memory in KiB.

    The memory is that of the containers' processes, and the decrease of the machine's available
    memory, which includes the kernel's.
    """
    before = look(subject)
    names = [f"{subject.prefix}-{number}" for number in range(count)]
    free = available()
    make = [subject.spawn(*subject.create_words(name)).wall for name in names]
    created = available()
    waiting = [memory_of(subject.pid(name))[0] for name in names]
    one_state = _median(subject, ["state", names[0]])
    start = [subject.spawn(*subject.words("start", name)).wall for name in names]
    started = available()
    found: dict[str, Any] = {
        "count": count,
        "create_first": statistics.median(make[:SPREAD]),
        "create_last": statistics.median(make[-SPREAD:]),
        "start_last": statistics.median(start[-SPREAD:]),
        "list": _median(subject, ["list"]),
        "state": statistics.median(
            _median(subject, ["state", name]) for name in names[:: max(count // SPREAD, 1)]
        ),
        "state_created": one_state,
        "memory_created": statistics.median(waiting),
        "memory_running": statistics.median(memory_of(subject.pid(name))[0] for name in names),
        "machine_created": (free - created) / count,
        "machine_running": (free - started) / count,
        "alive": sum(processes.alive(subject.pid(name)) for name in names),
    }
    for name in names:
        subject.end(name)
    found["delete"] = statistics.median(
        subject.spawn(*subject.words("delete", name)).wall for name in names
    )
    remains = left(subject, before)
    if remains:
        clear(subject, before)
    found["problems"] = [f"left: {line}" for line in remains]
    if found["alive"] != count:
        found["problems"].append(f"only {found['alive']} of {count} containers were alive")
    return found


def _median(subject: Subject, words: list[str]) -> float:
    return statistics.median(subject.spawn(*subject.words(*words)).wall for _ in range(REPEATED))


def available() -> int:
    """Return MemAvailable of proc_meminfo(5) in KiB."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1])
    raise RuntimeError("/proc/meminfo has no MemAvailable")


def burst(subject: Subject, count: int) -> dict[str, Any]:
    """Start ``count`` creations at once; return each one's wall and CPU time in milliseconds.

    ``elapsed`` is the time from the first start to the last end.
    """
    before = look(subject)
    names = [f"{subject.prefix}-{number}" for number in range(count)]
    costs = subject.spawn.all([subject.create_words(name) for name in names])
    made = [name for name, cost in zip(names, costs, strict=True) if cost.status == 0]
    deletions = subject.spawn.all([subject.words("delete", "--force", name) for name in names])
    for name in made:
        os.waitpid(subject.pid(name), 0)
    processes.reap_orphans()
    remains = left(subject, before)
    if remains:
        clear(subject, before)
    return {
        "count": count,
        "walls": [cost.wall for cost in costs],
        "cpus": [cost.cpu for cost in costs],
        "elapsed": max(cost.ended for cost in costs) - min(cost.began for cost in costs),
        "delete_elapsed": max(cost.ended for cost in deletions)
        - min(cost.began for cost in deletions),
        "failed": count - len(made),
        "problems": [f"left: {line}" for line in remains],
    }


def percentile(values: list[float], share: float) -> float:
    """Return the smallest value that at least this share of the values does not exceed."""
    in_order = sorted(values)
    return in_order[max(math.ceil(len(in_order) * share) - 1, 0)]
