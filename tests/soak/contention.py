"""Clients that compete for one id; their common history must be linearizable."""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.soak import history, linearizability
from tests.soak.contender import HANGS
from tests.soak.history import CREATE, OK, Operation
from tests.soak.subjects import Subject, clear, left, look
from tests.support import processes

REPOSITORY = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class Fight:
    """The result of a contention test; ``violation`` is "" for a linearizable history."""

    operations: list[Operation]
    violation: str
    left: list[str]

    def record(self) -> dict[str, Any]:
        """Return the numbers for the journal."""
        results = Counter(f"{one.verb}: {one.result}" for one in self.operations)
        problems = [self.violation] if self.violation else []
        problems += [f"left: {line}" for line in self.left]
        return {
            "operations": len(self.operations),
            "lives": sum(one.verb == CREATE and one.result == OK for one in self.operations),
            "overlapping": overlapping(self.operations),
            "hangs": sum(one.result == HANGS for one in self.operations),
            "results": dict(sorted(results.items())),
            "problems": problems,
        }


def overlapping(operations: list[Operation]) -> int:
    """Return how many operations ran at the same time as another one."""
    in_order = sorted(operations, key=lambda one: one.began)
    found: set[int] = set()
    latest = -1  # index of the operation so far that ended last
    for index, one in enumerate(in_order):
        if latest >= 0 and in_order[latest].ended > one.began:
            found |= {index, latest}
        if latest < 0 or one.ended > in_order[latest].ended:
            latest = index
    return len(found)


def fight(subject: Subject, clients: int, seconds: float, seed: int) -> Fight:
    """Let clients compete for the given time; the container is removed afterwards.

    The clients' containers are orphans, which this process adopts as the subreaper.
    """
    name = f"{subject.prefix}-fight"
    before = look(subject)
    with tempfile.TemporaryDirectory(dir=subject.bundle.parent) as place:
        common = (subject.kind, subject.program, subject.root, subject.bundle, name, seconds)
        _reap_until({_start(n, *common, seed * 1000 + n, place) for n in range(clients)})
        paths = [Path(place) / f"history{number}" for number in range(clients)]
        operations = [one for path in paths for one in history.read(path)]
    violation = linearizability.check(operations)
    subject.spawn.all([subject.words("delete", "--force", name)])
    processes.reap_orphans()
    remains = left(subject, before)
    if remains:
        clear(subject, before)
    return Fight(operations, violation, remains)


def _start(*arguments: object) -> int:
    """Start a client; return its pid."""
    words = [sys.executable, "-m", "tests.soak.contender", *map(str, arguments)]
    return os.posix_spawn(words[0], words, {**os.environ, "PYTHONPATH": str(REPOSITORY)})


def _reap_until(children: set[int]) -> None:
    """Reap every child until the given ones have exited; raises RuntimeError if one fails."""
    while children:
        pid, status = os.wait()
        if pid in children and status != 0:
            raise RuntimeError(f"a client failed: wait status {status}")
        children.discard(pid)
