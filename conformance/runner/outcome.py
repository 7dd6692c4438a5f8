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
    """The outcome of a case on a runtime: PASS, FAIL, SKIP, or ERROR if the case itself is broken.

    ``left``: what the runtime left behind after this case, one line each; it violates the clause
    ``blamed`` (RT-DELETE-04, or RT-ERR-01 if an operation failed), not the clauses of the case.
    ``commands``: the commands that were run, for reports.
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
        """True if it shows a fault of the runtime or of the case."""
        return self.status in {FAIL, ERROR} or bool(self.left)

    @property
    def text(self) -> str:
        """The message and what was left behind, one line each."""
        lines = [self.message] if self.message else []
        return "\n".join(lines + [f"left behind: {line}" for line in self.left])

    def as_json(self) -> dict[str, Any]:
        """Return the outcome as a JSON object."""
        return asdict(self)


def from_json(document: dict[str, Any]) -> Outcome:
    """Return the outcome from a JSON object of ``as_json``."""
    return Outcome(**document | {"clauses": tuple(document["clauses"])})


def broken(runtime: str, case: Case, message: str) -> Outcome:
    """Return an outcome ERROR for a case whose process did not report one."""
    return Outcome(runtime, case.path, case.clauses, ERROR, message)


@dataclass
class Verdict:
    """A clause's status on one runtime: that of the worst case, with the messages of failures."""

    status: str
    messages: list[str] = field(default_factory=list)
    cases: list[str] = field(default_factory=list)


def judge(clause: str, outcomes: Iterable[Outcome]) -> Verdict:
    """Return a clause's verdict from all outcomes of one runtime.

    FAIL if a case fails, ERROR if one is broken, PASS if one passes, SKIP if all are skipped.
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
