"""Known deviations of a runtime: the cases that it fails, and why.

A file ``expected/NAME-VERSION.toml`` has a table for each case that fails::

    ["config_mounts::propagation[slave]"]
    clauses = ["CFG-MNT-07"]
    reason = "mounts of tmpfs ignore the option"
    on = ["v1"]
    sometimes = true

``on``: the kinds of host on which it fails (``host.KINDS``), by default all.  ``sometimes``: the
case is flaky.  Cases that are not listed are expected to pass or be skipped.
"""

from __future__ import annotations

import glob
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from conformance.driver import Runtime
from conformance.host import KINDS
from conformance.runner.outcome import PASS, SKIP, Outcome

DIRECTORY = Path(__file__).with_name("expected")
LONGEST = 400  # characters of a message to record as a reason
UNEXPLAINED = "unexplained: "
BETTER, WORSE = "passes, but a failure is expected", "fails, but is expected to pass"


@dataclass(frozen=True)
class Deviation:
    """A case that is known to fail, and the reason; see above for the members."""

    case: str
    clauses: tuple[str, ...]
    reason: str
    sometimes: bool = False
    on: tuple[str, ...] = ()


Known = Mapping[str, Deviation]


def file_for(runtime: Runtime) -> Path:
    """Return the path of the kit's file for a runtime and its version; it may not exist."""
    return DIRECTORY / f"{runtime.name}-{runtime.version}.toml"


def nearest(runtime: Runtime) -> Path | None:
    """Return the file of the nearest version of the same runtime, or None if there is none.

    That is the newest of the older versions, else the oldest of the newer ones; for a runtime that
    does not tell its version, the newest of all.
    """
    prefix = f"{runtime.name}-"
    found = DIRECTORY.glob(f"{glob.escape(prefix)}[0-9]*.toml")
    files = sorted(found, key=lambda path: _numbers(path.stem.removeprefix(prefix)))
    version = _numbers(runtime.version)
    older = [path for path in files if _numbers(path.stem.removeprefix(prefix)) <= version]
    if not files:
        return None
    if not version:
        return files[-1]
    return older[-1] if older else files[0]


def _numbers(version: str) -> tuple[int, ...]:
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()


def load(path: Path) -> Known:
    """Load a file; return case -> deviation.  Raises OSError, ValueError."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    known = {}
    for case, fields in tables.items():
        try:
            known[case] = from_json({"case": case, **fields})
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path.name}: {case}: {error}") from None
    return known


def from_json(fields: Mapping[str, Any]) -> Deviation:
    """Return the deviation with these members.  Raises KeyError, TypeError, ValueError."""
    on = tuple(fields.get("on", ()))
    if not KINDS.keys() >= set(on):
        raise ValueError(f"on: unknown kind of host in {', '.join(on)} ({', '.join(KINDS)})")
    return Deviation(**{**fields, "clauses": tuple(fields["clauses"]), "on": on})


def seen_on(known: Known, kind: str) -> Known:
    """Return the deviations that apply to that kind of host."""
    return {case: one for case, one in known.items() if not one.on or kind in one.on}


def change(outcome: Outcome, known: Known | None) -> str:
    """Return BETTER or WORSE if an outcome is not the expected one, else ""; "" for known None."""
    if known is None:
        return ""
    deviation = known.get(outcome.case)
    if deviation is None:
        return WORSE if outcome.bad else ""
    if outcome.status == PASS and not outcome.left and not deviation.sometimes:
        return BETTER
    return ""


def updated(outcomes: Iterable[Outcome], known: Known, kind: str) -> list[Deviation]:
    """Return the known deviations updated by one runtime's outcomes on that kind of host.

    Reasons stay, and so does what is known for other kinds of host.  Cases that did not run or were
    skipped keep their entry.
    """
    result = dict(known)
    for one in outcomes:
        old = result.get(one.case)
        if one.bad and old is None:
            reason = UNEXPLAINED + plain(one.text)
            result[one.case] = Deviation(one.case, one.clauses, reason, on=(kind,))
        elif one.bad and old is not None:
            on = (*old.on, kind) if old.on and kind not in old.on else old.on
            result[one.case] = replace(old, clauses=one.clauses, on=on)
        elif old is not None and one.status != SKIP and not old.sometimes:
            others = tuple(word for word in old.on or KINDS if word != kind)
            del result[one.case]
            if others:
                result[one.case] = replace(old, on=others)
    return sorted(result.values(), key=lambda deviation: deviation.case)


def dump(title: str, deviations: Iterable[Deviation]) -> str:
    """Return the text of a file of known deviations; ``title`` names the runtime."""
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
        if one.on:
            lines.append(f"on = [{', '.join(map(_quoted, one.on))}]")
        if one.sometimes:
            lines.append("sometimes = true")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def plain(message: str) -> str:
    """Return a message on one line, without scratch directories, ids and times of the run."""
    text = " ".join(message.split())
    text = re.sub(r"/tmp/oci-\w+/", "", text)
    text = re.sub(r"\boc[0-9a-f]{4}x\d+(-\d+)?", "ID", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-][\d:]+)", "TIME", text)
    return text if len(text) <= LONGEST else text[:LONGEST] + "..."
