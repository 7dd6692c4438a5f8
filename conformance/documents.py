"""Check state documents against the specification's JSON schema, and version strings."""

from __future__ import annotations

import re
from typing import Any

STATUSES = ("creating", "created", "running", "stopped")
# https://semver.org/spec/v2.0.0.html, the expression suggested there without its groups
SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(-(0|[1-9]\d*|\d*[a-zA-Z-][\dA-Za-z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][\dA-Za-z-]*))*)?"
    r"(\+[\dA-Za-z-]+(\.[\dA-Za-z-]+)*)?"
)


def state_faults(state: Any) -> list[str]:
    """Return descriptions of the schema violations in a state document; [] for a valid one."""
    if not isinstance(state, dict):
        return ["the state is not a JSON object"]
    faults = [
        f"{key} is missing" for key in ("ociVersion", "id", "status", "bundle") if key not in state
    ]
    faults += [
        f"{key} is not a string: {state[key]!r}"
        for key in ("ociVersion", "id", "status", "bundle")
        if key in state and not isinstance(state[key], str)
    ]
    if isinstance(state.get("status"), str) and state["status"] not in STATUSES:
        faults.append(f"status {state['status']!r} is not one of {', '.join(STATUSES)}")
    pid = state.get("pid", 0)
    if not isinstance(pid, int) or isinstance(pid, bool) or pid < 0:
        faults.append(f"pid is not a non-negative integer: {pid!r}")
    annotations = state.get("annotations", {})
    if not isinstance(annotations, dict):
        faults.append(f"annotations is not a JSON object: {annotations!r}")
    elif not all(isinstance(value, str) for value in annotations.values()):
        faults.append(f"annotations has a value that is not a string: {annotations!r}")
    return faults


def is_semver(text: object) -> bool:
    """Return whether ``text`` is a version in the format of SemVer 2.0.0."""
    return isinstance(text, str) and SEMVER.fullmatch(text) is not None
