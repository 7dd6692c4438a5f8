r"""Differences that are known: what a runtime does otherwise than the others, and why.

``expected/differences.toml`` has a table for each::

    [[difference]]
    facts = 'mount /.*\.propagation'
    runtimes = "runc .*"
    edits = 'linux\.rootfsPropagation'
    reason = "..."

All but the reason are regular expressions: the whole name of a fact, the whole label of a
runtime, something in one of the config's edits, and, by ``says``, something in the value.
``edits`` can be a list, of which each finds an edit; ``(?P=place)`` in it is what ``facts`` has
found as ``(?P<place>...)``.  A difference is known if the runtimes that no table speaks of agree.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.difference.edits import Edits

FILE = Path(__file__).parent.parent / "expected" / "differences.toml"


@dataclass(frozen=True)
class Known:
    """One table."""

    facts: str
    runtimes: str
    reason: str
    edits: str | list[str] = ""
    says: str = ""

    def excuses(self, fact: str, runtime: str, value: object, edits: Edits) -> bool:
        """Return true if it explains that value of that runtime."""
        found = re.fullmatch(self.facts, fact)
        return (
            found is not None
            and re.fullmatch(self.runtimes, runtime) is not None
            and all(_fits(pattern, found, edits) for pattern in self.patterns)
            and re.search(self.says, str(value)) is not None
        )

    @property
    def patterns(self) -> list[str]:
        """Return patterns, each of which must match one of the edits."""
        return [self.edits] if isinstance(self.edits, str) else self.edits


def _fits(pattern: str, found: re.Match[str], edits: Edits) -> bool:
    for name, text in found.groupdict().items():
        pattern = pattern.replace(f"(?P={name})", re.escape(text))
    return not pattern or any(re.search(pattern, str(one)) for one in edits)


def load(path: Path = FILE) -> list[Known]:
    """Load all tables. Raises OSError, ValueError, TypeError."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    return [Known(**table) for table in tables.get("difference", [])]


def unexplained(
    facts: Mapping[str, Mapping[str, Any]], edits: Edits, known: list[Known]
) -> dict[str, Any]:
    """The differing facts (values by runtime) that are not known of a config."""
    found = {}
    for fact, values in facts.items():
        others = {
            _outcome(value) if fact == "result" else str(value)
            for runtime, value in values.items()
            if not any(one.excuses(fact, runtime, value, edits) for one in known)
        }
        if len(others) > 1:
            found[fact] = values
    return found


def _outcome(value: object) -> str:
    """``runs``, ``create fails``: the reasons of two refusals are never the same."""
    return " ".join(str(value).split()[:2])
