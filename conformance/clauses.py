"""The registry of clauses: the specification's requirements, in ``clauses.toml``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

REGISTRY = Path(__file__).with_name("clauses.toml")
# "stated": described as a fact, without one of the keywords of RFC 2119.
LEVELS = ("MUST", "MUST NOT", "REQUIRED", "SHOULD", "SHOULD NOT", "MAY", "stated")
BINDING = frozenset({"MUST", "MUST NOT", "REQUIRED"})


@dataclass(frozen=True)
class Clause:
    """A requirement of the specification; ``source`` is FILE#SECTION of its text.

    ``since`` is the first release that has it.  ``reason`` explains why it cannot be observed from
    outside; "" if it can.
    """

    id: str
    level: str
    source: str
    since: str
    text: str
    reason: str = ""

    @property
    def binding(self) -> bool:
        """True if a runtime that violates it is not compliant (RFC 2119)."""
        return self.level in BINDING

    @property
    def link(self) -> str:
        """The URL of the clause's section in release 1.3.0 of the specification."""
        base = "https://github.com/opencontainers/runtime-spec/blob/v1.3.0/"
        return base + self.source


@cache
def registry() -> dict[str, Clause]:
    """Return id -> clause in the order of ``clauses.toml``.

    Raises ValueError for an invalid entry.
    """
    with REGISTRY.open("rb") as file:
        tables = tomllib.load(file)
    clauses = {}
    for id, fields in tables.items():
        try:
            clause = Clause(id, **fields)
        except TypeError as error:
            raise ValueError(f"{REGISTRY.name}: {id}: {error}") from None
        if clause.level not in LEVELS:
            known = ", ".join(LEVELS)
            raise ValueError(f"{REGISTRY.name}: {id}: unknown level {clause.level!r} ({known})")
        clauses[id] = clause
    return clauses


def version_key(version: str) -> tuple[int, ...]:
    """Return a sort key: ``1.0.2-rc1`` becomes (1, 0, 2), without pre-release and build."""
    plain = version.partition("+")[0].partition("-")[0]
    return tuple(int(part) if part.isdigit() else 0 for part in plain.split("."))
