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
    """A requirement; ``source`` is FILE#SECTION, ``since`` the first release that has it.

    ``reason`` explains why it cannot be observed from outside, and is empty for all others.
    """

    id: str
    level: str
    source: str
    since: str
    text: str
    reason: str = ""

    @property
    def binding(self) -> bool:
        """Return true if a runtime that violates it is not compliant."""
        return self.level in BINDING

    @property
    def link(self) -> str:
        """The clause's section in the specification's release."""
        base = "https://github.com/opencontainers/runtime-spec/blob/v1.3.0/"
        return base + self.source


@cache
def registry() -> dict[str, Clause]:
    """Return all clauses by id, in the order of the file.

    Raises ValueError for an incomplete entry.
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
            raise ValueError(f"{REGISTRY.name}: {id}: no level {clause.level!r}")
        clauses[id] = clause
    return clauses


def version_key(version: str) -> tuple[int, ...]:
    """``1.0.2`` -> (1, 0, 2); pre-release and build parts do not count."""
    plain = version.partition("+")[0].partition("-")[0]
    return tuple(int(part) if part.isdigit() else 0 for part in plain.split("."))
