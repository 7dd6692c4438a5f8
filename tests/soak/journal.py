"""The results of a soak on disk: a line of JSON for each piece of work, so that it can resume."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Record = dict[str, Any]


class Journal:
    """The records of the parts, in a directory; each record has the runtime in ``runtime``."""

    def __init__(self, work: Path) -> None:
        self._work = work
        work.mkdir(parents=True, exist_ok=True)

    def _path(self, part: str) -> Path:
        return self._work / f"{part}.jsonl"

    def add(self, part: str, runtime: str, record: Record) -> None:
        """Append a record."""
        with self._path(part).open("a") as file:
            file.write(json.dumps({"runtime": runtime, **record}) + "\n")

    def records(self, part: str, runtime: str | None = None) -> list[Record]:
        """Return the records of a part, in order; of one runtime, or of all."""
        if not self._path(part).exists():
            return []
        found = [json.loads(line) for line in self._path(part).read_text().splitlines()]
        return [one for one in found if runtime in (None, one["runtime"])]

    def runtimes(self, part: str) -> list[str]:
        """Return the runtimes that have records, in the order of their first."""
        return list(dict.fromkeys(one["runtime"] for one in self.records(part)))

    def done(self, part: str, runtime: str, what: str = "count") -> int:
        """Return the sum of a number over all records of a runtime."""
        return sum(one.get(what, 0) for one in self.records(part, runtime))
