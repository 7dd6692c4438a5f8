"""How many inputs each fuzz target has tried, with its findings: build/fuzz/runs.jsonl."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from tests.support import project

WORK = project.ROOT / "build" / "fuzz"
DONE = re.compile(r"^Done (\d+) runs ", re.MULTILINE)
PROGRESS = re.compile(r"^#(\d+)\s", re.MULTILINE)


@dataclass
class Total:
    """The runs of one target, and the names of the inputs that showed a bug."""

    runs: int = 0
    findings: list[str] = field(default_factory=list)


def executions(log: str) -> int:
    """Return the runs that libFuzzer reports; after an interruption, those last reported."""
    done = DONE.findall(log) or PROGRESS.findall(log)
    return int(done[-1]) if done else 0


def record(name: str, runs: int, findings: list[str], work: Path = WORK) -> None:
    """Append the runs of one start of a target."""
    with (work / "runs.jsonl").open("a") as file:
        line = {"target": name, "runs": runs, "findings": findings}
        file.write(json.dumps(line) + "\n")


def totals(work: Path = WORK) -> dict[str, Total]:
    """Return the sum of each target's recorded runs."""
    path = work / "runs.jsonl"
    found: dict[str, Total] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        one = json.loads(line)
        total = found.setdefault(one["target"], Total())
        total.runs += one["runs"]
        total.findings += one["findings"]
    return found
