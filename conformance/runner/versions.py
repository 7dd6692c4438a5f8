"""Determine which values of ``ociVersion`` a runtime accepts.

A case's config normally has the version in which its clauses appeared.  A runtime that refuses
that version would fail every such case, so the config gets the newest older version that it
accepts; the refusal itself is checked by the cases of CFG-VER-03 and FEAT-06.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from conformance.case import Case, Skipped
from conformance.clauses import registry, version_key
from conformance.context import Context
from conformance.driver import Runtime
from conformance.runner.outcome import SKIP
from conformance.runner.pool import Pool, Settings


def known_versions() -> list[str]:
    """Return all versions in which clauses appeared, the earliest first."""
    return sorted({clause.since for clause in registry().values()}, key=version_key)


def _try_all(c: Context) -> None:
    taken = []
    for version in known_versions():
        box, result = c.attempt_create(c.bundle(ociVersion=version))
        if result.ok:
            taken.append(version)
        else:
            box.deleted = True
    raise Skipped(" ".join(taken))


def accepted(runtimes: Sequence[Runtime], settings: Settings) -> list[Runtime]:
    """Return the runtimes with ``versions`` set to those that they accept."""
    case = Case("versions", "", ("CFG-VER-03",), "accepted versions", _try_all)
    outcomes = Pool(replace(settings, keep=False)).run([(case, one) for one in runtimes])
    taken = {one.runtime: one.message.split() for one in outcomes if one.status == SKIP}
    return [replace(one, versions=tuple(taken.get(one.label, ()))) for one in runtimes]
