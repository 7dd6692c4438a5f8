r"""Known differences: facts in which a runtime differs from the others, and why.

``expected/differences.toml`` has a table for each::

    [[difference]]
    facts = 'mount /.*\.propagation'
    runtimes = "runc .*"
    edits = 'linux\.rootfsPropagation'
    reason = "..."

All but the reason are regular expressions.  ``facts`` and ``runtimes`` match a fact's whole name
and a runtime's whole label, with or without its build.  ``edits`` is searched in the config's
edits; of a list, each must match some edit.  ``(?P=NAME)`` in it is the text of the group
``(?P<NAME>...)`` in ``facts``.  ``says`` is searched in the fact's value.  A difference is known if
all runtimes without a matching table agree.
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
    """A known difference; see above for the members."""

    facts: str
    runtimes: str
    reason: str
    edits: str | list[str] = ""
    says: str = ""

    def excuses(self, fact: str, runtime: str, value: object, edits: Edits) -> bool:
        """Return whether it explains the runtime's value of a fact."""
        match = re.fullmatch(self.facts, fact)
        return (
            match is not None
            and any(re.fullmatch(self.runtimes, name) for name in (runtime, _release(runtime)))
            and all(_fits(pattern, match, edits) for pattern in self.patterns)
            and re.search(self.says, str(value)) is not None
        )

    @property
    def patterns(self) -> list[str]:
        """The patterns in ``edits``, each of which must match one of the config's edits."""
        return [self.edits] if isinstance(self.edits, str) else self.edits


def _release(label: str) -> str:
    """Return name and version, which builds of one version have in common."""
    return label.partition(" (")[0]


def _fits(pattern: str, match: re.Match[str], edits: Edits) -> bool:
    for name, text in match.groupdict().items():
        pattern = pattern.replace(f"(?P={name})", re.escape(text))
    return not pattern or any(re.search(pattern, str(one)) for one in edits)


def load(path: Path = FILE) -> list[Known]:
    """Load a file of known differences.  Raises OSError, ValueError, TypeError."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    return [Known(**table) for table in tables.get("difference", [])]


def unexplained(
    facts: Mapping[str, Mapping[str, Any]], edits: Edits, known: list[Known]
) -> dict[str, Any]:
    """Return the differing facts of a config (fact -> runtime -> value) that are not known."""
    unknown = {}
    for fact, values in facts.items():
        others = {
            _outcome(value) if fact == "result" else str(value)
            for runtime, value in values.items()
            if not any(one.excuses(fact, runtime, value, edits) for one in known)
        }
        if len(others) > 1:
            unknown[fact] = values
    return unknown


def _outcome(value: object) -> str:
    """Return "runs", "create fails" ... without the reason, which differs between runtimes."""
    return " ".join(str(value).split()[:2])
