"""The outcome of a case on a runtime, and of a clause over all its cases."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from conformance.case import Case

PASS, FAIL, SKIP, ERROR = "pass", "fail", "skip", "error"
UNTESTED, HIDDEN = "untested", "hidden"


@dataclass
class Outcome:
    """``status``: pass, fail, skip, or error when the case itself is broken.

    ``left``: what the runtime left behind after this case, one line each; it counts against
    ``blamed`` (RT-DELETE-04, or RT-ERR-01 where an operation failed), not against the clauses
    that the case is about.  ``commands``: what was called, for people.
    """

    runtime: str
    case: str
    clauses: tuple[str, ...]
    status: str
    message: str = ""
    seconds: float = 0
    left: list[str] = field(default_factory=list)
    blamed: str = ""
    commands: list[dict[str, Any]] = field(default_factory=list)

    @property
    def bad(self) -> bool:
        """Return true if it shows a fault of the runtime (or the case)."""
        return self.status in {FAIL, ERROR} or bool(self.left)

    @property
    def text(self) -> str:
        """Message and what was left, one line each."""
        lines = [self.message] if self.message else []
        return "\n".join(lines + [f"left behind: {line}" for line in self.left])

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def from_json(document: dict[str, Any]) -> Outcome:
    """The reverse of ``as_json``."""
    return Outcome(**document | {"clauses": tuple(document["clauses"])})


def broken(runtime: str, case: Case, message: str) -> Outcome:
    """An outcome for a case that could not say anything itself."""
    return Outcome(runtime, case.path, case.clauses, ERROR, message)


@dataclass
class Verdict:
    """A clause on one runtime: the worst of its cases, with the messages of the bad ones."""

    status: str
    messages: list[str] = field(default_factory=list)
    cases: list[str] = field(default_factory=list)


def judge(clause: str, outcomes: Iterable[Outcome]) -> Verdict:
    """Sum up all outcomes of one runtime for a clause.

    Fails if one case fails; passes if one passes and none fails; is skipped if all are.
    """
    verdict = Verdict(UNTESTED)
    rank = {UNTESTED: 0, SKIP: 1, PASS: 2, ERROR: 3, FAIL: 4}
    for one in outcomes:
        status = ""
        if clause in one.clauses:
            status = one.status
            verdict.cases.append(one.case)
            if one.status != PASS:
                verdict.messages.append(f"{one.case}: {one.message}")
        if clause == one.blamed and one.left:
            status = FAIL
            verdict.messages += [f"{one.case}: left behind: {line}" for line in one.left]
        if status and rank[status] > rank[verdict.status]:
            verdict.status = status
    return verdict
