"""The findings of the doctor, as plain values."""

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
    """The result of a probe; its ``meaning`` and ``remedy`` override those of the table's row."""

    state: str
    found: str
    meaning: str = ""
    remedy: str = ""


class Probe(NamedTuple):
    """A row of a table: ``look`` is the probe, the rest explains a failure of it.

    If an ``essential`` probe fails, no container can run.
    """

    name: str
    look: Callable[[Host], Answer]
    meaning: str
    remedy: str
    essential: bool = False


class Finding(NamedTuple):
    """A finding about the host; ``meaning`` and ``remedy`` are empty if the probe succeeded."""

    subject: str
    name: str
    state: str
    found: str
    meaning: str
    remedy: str
    essential: bool


class Fault(NamedTuple):
    """A finding about a bundle; ``where`` is a JSON path or "", ``warning``: not an error."""

    where: str
    message: str
    hint: str
    warning: bool = False


def ask(host: Host, tables: Iterable[tuple[str, tuple[Probe, ...]]]) -> list[Finding]:
    """Return the findings of all probes, in the order of the tables."""
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
    """Return whether containers can run: every essential probe succeeded."""
    return not any(each.essential and each.state == MISSING for each in findings)
