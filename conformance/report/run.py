"""The results of one run of the kit, from which every report is made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from conformance import deviations
from conformance.clauses import registry
from conformance.deviations import Known
from conformance.driver import Runtime
from conformance.runner.outcome import HIDDEN, UNTESTED, Outcome, Verdict, judge


@dataclass
class Run:
    """The results of a run.

    ``known``: label of a runtime -> its known deviations; runtimes without a file have no member.
    ``related``: label of a runtime whose version is not known -> (its nearest relative, the known
    deviations of that).  ``host``: as of ``Host.describe``.  ``made``: date and time of the start,
    in UTC.
    """

    runtimes: list[Runtime]
    outcomes: list[Outcome]
    known: Mapping[str, Known] = field(default_factory=dict)
    host: Mapping[str, str] = field(default_factory=dict)
    made: str = ""
    related: Mapping[str, tuple[str, Known]] = field(default_factory=dict)

    def of(self, label: str) -> list[Outcome]:
        """Return the outcomes of the runtime with that label."""
        return [one for one in self.outcomes if one.runtime == label]

    @cached_property
    def verdicts(self) -> dict[str, dict[str, Verdict]]:
        """Label of a runtime -> id of a clause -> verdict, in the order of the registry."""
        return {one.label: _verdicts(self.of(one.label)) for one in self.runtimes}

    def change(self, outcome: Outcome) -> str:
        """Return how the outcome differs from the expected one; see ``deviations.change``."""
        return deviations.change(outcome, self.known.get(outcome.runtime))

    def reason(self, outcome: Outcome) -> str:
        """Return why a failure is expected; "" if it is not, or for other outcomes."""
        deviation = self.known.get(outcome.runtime, {}).get(outcome.case)
        return deviation.reason if deviation and outcome.bad else ""

    def shared(self, label: str) -> list[Outcome]:
        """Return the failures that are known of the runtime's nearest relative."""
        _, known = self.related.get(label, ("", {}))
        return [one for one in self.of(label) if one.bad and one.case in known]

    @cached_property
    def changed(self) -> dict[tuple[str, str], str]:
        """(label of a runtime, case) -> how its outcome differs from the expected one."""
        found = {(one.runtime, one.case): self.change(one) for one in self.outcomes}
        return {key: how for key, how in found.items() if how}

    def counts(self, label: str, binding: bool = False) -> Counter[str]:
        """Return status -> number of clauses; with ``binding`` only MUST, MUST NOT, REQUIRED."""
        return Counter(
            verdict.status
            for id, verdict in self.verdicts[label].items()
            if registry()[id].binding or not binding
        )

    @property
    def failed(self) -> bool:
        """True if any outcome differs from the expected one."""
        return bool(self.changed) or any(
            one.bad for one in self.outcomes if one.runtime not in self.known
        )


def _verdicts(outcomes: list[Outcome]) -> dict[str, Verdict]:
    found = {}
    for id, clause in registry().items():
        verdict = judge(id, outcomes)
        if verdict.status == UNTESTED and clause.reason:
            verdict = Verdict(HIDDEN, [clause.reason])
        found[id] = verdict
    return found
