"""Known deviations of a runtime: which cases it fails, and why that is so.

A file ``expected/NAME-VERSION.toml`` has a table for each case that fails::

    ["config_mounts::propagation[slave]"]
    clauses = ["CFG-MNT-07"]
    reason = "mounts of tmpfs ignore the option"
    sometimes = true

``sometimes``: whether it fails depends on the host or on luck.  Everything that is not listed
must pass or be skipped; what differs from that has changed.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from conformance.driver import Runtime
from conformance.runner.outcome import PASS, SKIP, Outcome

DIRECTORY = Path(__file__).with_name("expected")
LONGEST = 400  # characters of a message that is kept
UNEXPLAINED = "unexplained: "
BETTER, WORSE = "passes, but a failure is expected", "fails, but is expected to pass"


@dataclass(frozen=True)
class Deviation:
    """One case that is known to fail."""

    case: str
    clauses: tuple[str, ...]
    reason: str
    sometimes: bool = False


Known = Mapping[str, Deviation]


def file_for(runtime: Runtime) -> Path:
    """Where the runtime's deviations are, whether there is such a file or not."""
    variant = "-systemd" if runtime.systemd else ""
    return DIRECTORY / f"{runtime.name}-{runtime.version}{variant}.toml"


def load(path: Path) -> Known:
    """Deviations by case.  Raises OSError, ValueError."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    found = {}
    for case, fields in tables.items():
        try:
            found[case] = Deviation(case, **fields | {"clauses": tuple(fields["clauses"])})
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path.name}: {case}: {error}") from None
    return found


def change(outcome: Outcome, known: Known | None) -> str:
    """How an outcome differs from what is expected; empty if it does not, or nothing is known."""
    if known is None:
        return ""
    deviation = known.get(outcome.case)
    if deviation is None:
        return WORSE if outcome.bad else ""
    if outcome.status == PASS and not outcome.left and not deviation.sometimes:
        return BETTER
    return ""


def updated(outcomes: Iterable[Outcome], known: Known) -> list[Deviation]:
    """What is expected after these outcomes of one runtime.

    Reasons stay; cases that did not run, or were skipped, keep what is known of them.
    """
    found = dict(known)
    for one in outcomes:
        old = found.get(one.case)
        if one.bad:
            reason = old.reason if old else UNEXPLAINED + plain(one.text)
            found[one.case] = Deviation(
                one.case, one.clauses, reason, old.sometimes if old else False
            )
        elif old and one.status != SKIP and not old.sometimes:
            del found[one.case]
    return sorted(found.values(), key=lambda deviation: deviation.case)


def dump(title: str, deviations: Iterable[Deviation]) -> str:
    """The text of a file."""
    lines = [
        f"# Known deviations of {title}: cases that fail, and why.",
        "# `oci-conformance --write-expected` updates the list and keeps the reasons.",
    ]
    for one in deviations:
        # A JSON string is a TOML basic string as well.
        lines += [
            "",
            f"[{_quoted(one.case)}]",
            f"clauses = [{', '.join(map(_quoted, one.clauses))}]",
            f"reason = {_quoted(one.reason)}",
        ]
        if one.sometimes:
            lines.append("sometimes = true")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def plain(message: str) -> str:
    """A message on one line, without what differs at each run: scratch directories, ids, times."""
    text = " ".join(message.split())
    text = re.sub(r"/tmp/oci-\w+/", "", text)
    text = re.sub(r"\boc[0-9a-f]{4}x\d+(-\d+)?", "ID", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-][\d:]+)", "TIME", text)
    return text if len(text) <= LONGEST else text[:LONGEST] + "..."
