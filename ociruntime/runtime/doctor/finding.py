"""What the doctor says: plain values, whoever prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ociruntime.runtime.doctor.host import Host

Json = Any  # a document, or a part of one

OK = "ok"
LIMITED = "limited"  # containers run, some settings do not
MISSING = "missing"


class Answer(NamedTuple):
    """What a probe has seen; ``meaning`` and ``remedy`` where it knows better than its row."""

    state: str
    found: str
    meaning: str = ""
    remedy: str = ""


class Probe(NamedTuple):
    """One row of a table: ``look`` finds out, the rest says what it means if it is not ok.

    Without what is ``essential`` no container runs.
    """

    name: str
    look: Callable[[Host], Answer]
    meaning: str
    remedy: str
    essential: bool = False


class Finding(NamedTuple):
    """One line about the host; ``meaning`` and ``remedy`` are empty where all is well."""

    subject: str
    name: str
    state: str
    found: str
    meaning: str
    remedy: str
    essential: bool


class Fault(NamedTuple):
    """One line about a bundle: ``where`` is a JSON path or "", ``warning`` is no failure."""

    where: str
    message: str
    hint: str
    warning: bool = False


def ask(host: Host, tables: Iterable[tuple[str, tuple[Probe, ...]]]) -> list[Finding]:
    """Every probe's answer, in the order of the tables."""
    found = []
    for subject, probes in tables:
        for probe in probes:
            answer = probe.look(host)
            meaning = remedy = ""
            if answer.state != OK:
                meaning = answer.meaning or probe.meaning
                remedy = answer.remedy or probe.remedy
            found.append(
                Finding(
                    subject,
                    probe.name,
                    answer.state,
                    answer.found,
                    meaning,
                    remedy,
                    probe.essential,
                )
            )
    return found


def can_run(findings: Iterable[Finding]) -> bool:
    """Whether containers run: nothing essential is missing."""
    return not any(each.essential and each.state == MISSING for each in findings)
