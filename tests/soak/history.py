"""The history of the commands that several clients have run on one container id."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

# What a client runs.
CREATE, START, STATE, KILL, TERM = "create", "start", "state", "kill", "term"
DELETE, FORCE = "delete", "delete --force"
VERBS = (CREATE, START, STATE, KILL, TERM, DELETE, FORCE)

# What it is told: success, or why not.  `state` succeeds with one of the statuses.
OK = "ok"
ABSENT, EXISTS, NOT_STOPPED = "does not exist", "already exists", "not stopped"
IS_RUNNING, HAS_STOPPED, DIED = "already running", "has stopped", "died during start"
BUSY = "in use"  # another command creates or deletes the container at this moment
FAILED = "failed"  # another runtime's error, for whatever reason
CREATED, RUNNING, STOPPED = "created", "running", "stopped"


@dataclass(frozen=True)
class Operation:
    """One command: ``began`` and ``ended`` are nanoseconds of CLOCK_MONOTONIC.

    ``pid`` is the init's pid that a successful `create` or `state` has reported, else 0.
    """

    client: int
    verb: str
    began: int
    ended: int
    result: str
    pid: int = 0

    def __str__(self) -> str:
        pid = f" (pid {self.pid})" if self.pid else ""
        return f"client {self.client}: {self.verb}: {self.result}{pid}"


def write(path: Path, operations: Iterable[Operation]) -> None:
    """Write a history, one line of JSON for each operation."""
    lines = (json.dumps(dataclasses.astuple(one)) + "\n" for one in operations)
    path.write_text("".join(lines))


def read(path: Path) -> list[Operation]:
    """Return the operations in a file that ``write`` has written."""
    return [Operation(*json.loads(line)) for line in path.read_text().splitlines()]
