"""Write and read the complete results of a run as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from conformance import __version__, deviations
from conformance.clauses import registry
from conformance.driver import Runtime
from conformance.report.run import Run
from conformance.runner.outcome import from_json

FORMAT = 2
SPECIFICATION = "1.3.0"


def document(run: Run) -> dict[str, Any]:
    """Return the report: each clause's status on each runtime, and all outcomes."""
    return {
        "format": FORMAT,
        "kit": __version__,
        "specification": SPECIFICATION,
        "made": run.made,
        "host": dict(run.host),
        "runtimes": [_runtime(run, one) for one in run.runtimes],
        "clauses": {
            id: {
                "level": clause.level,
                "source": clause.source,
                "since": clause.since,
                "text": clause.text,
                "reason": clause.reason,
                "states": {
                    label: {
                        "status": verdicts[id].status,
                        "cases": verdicts[id].cases,
                        "messages": verdicts[id].messages,
                    }
                    for label, verdicts in run.verdicts.items()
                },
            }
            for id, clause in registry().items()
        },
        "outcomes": [
            one.as_json() | {"change": run.change(one), "reason": run.reason(one)}
            for one in run.outcomes
        ],
    }


def _runtime(run: Run, runtime: Runtime) -> dict[str, Any]:
    known = run.known.get(runtime.label)
    return {
        "label": runtime.label,
        "name": runtime.name,
        "version": runtime.version,
        "path": str(runtime.path),
        "options": list(runtime.options),
        "config_versions": list(runtime.versions),
        "clauses": dict(run.counts(runtime.label)),
        "binding": dict(run.counts(runtime.label, binding=True)),
        "build": runtime.build,
        "known": None if known is None else [vars(one) for one in known.values()],
        "related": _related(run, runtime.label),
    }


def _related(run: Run, label: str) -> dict[str, Any] | None:
    if label not in run.related:
        return None
    name, known = run.related[label]
    return {"name": name, "known": [vars(one) for one in known.values()]}


def dump(run: Run) -> str:
    """Return the report's text."""
    return json.dumps(document(run), indent=1, ensure_ascii=False) + "\n"


def load(path: Path) -> Run:
    """Return the run from a JSON report.  Raises OSError, ValueError."""
    found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError(f"{path}: not a JSON report of oci-conformance with format {FORMAT}")
    runtimes = [
        Runtime(
            Path(one["path"]),
            one["name"],
            one["version"],
            tuple(one["options"]),
            tuple(one["config_versions"]),
            one.get("build", ""),
        )
        for one in found["runtimes"]
    ]
    known = {
        one["label"]: {each["case"]: deviations.from_json(each) for each in one["known"]}
        for one in found["runtimes"]
        if one["known"] is not None
    }
    related = {
        one["label"]: (
            one["related"]["name"],
            {each["case"]: deviations.from_json(each) for each in one["related"]["known"]},
        )
        for one in found["runtimes"]
        if one.get("related")
    }
    derived = {"change", "reason"}
    outcomes = [
        from_json({key: value for key, value in one.items() if key not in derived})
        for one in found["outcomes"]
    ]
    return Run(runtimes, outcomes, known, found["host"], found["made"], related)
