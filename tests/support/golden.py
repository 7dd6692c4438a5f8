"""Read the cases of tests/golden, and run the compiler on them.

A case is a directory with config.json, facts.json (the host and the caller's options) and plan.txt,
the explained plan; or error.txt, the error.
"""

from __future__ import annotations

import difflib
import json
from pathlib import Path

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.host.seccomp_verdicts import CALLS
from ociruntime.runtime.plan.compiler import compile_plan
from ociruntime.runtime.plan.explain import explain
from ociruntime.runtime.plan.facts import HostFacts, Request
from ociruntime.runtime.plan.plan import Plan

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
CASES = sorted(path.parent for path in GOLDEN.glob("*/config.json"))
ANSWERS = ("plan.txt", "error.txt")


def host_facts(given: dict[str, object]) -> HostFacts:
    """Return the facts of a case; by default a privileged host with cgroup v1."""
    values: dict[str, object] = {
        "uid": 0,
        "last_capability": 40,
        "bounding": (1 << 41) - 1,
        "cgroup_mode": "v1",
        **given,
    }
    hierarchies = given.get("hierarchies", [["memory", "/sys/fs/cgroup/memory/c1"]])
    assert isinstance(hierarchies, list)
    values["hierarchies"] = tuple((name, directory) for name, directory in hierarchies)
    return HostFacts(**values)  # type: ignore[arg-type]  # as in facts.json


def request(given: dict[str, object]) -> Request:
    """Return the caller's options; the filter is in hexadecimal, by default it allows all calls."""
    values: dict[str, object] = {"id": "c1", "bundle": "/bundle", "rootfs": "/bundle/rootfs"}
    values.update(given)
    values["seccomp_filter"] = bytes.fromhex(str(given.get("seccomp_filter", "")))
    values["seccomp_calls"] = frozenset(given.get("seccomp_calls", CALLS))  # type: ignore[call-overload]
    return Request(**values)  # type: ignore[arg-type]  # as in facts.json


def plan_of(case: Path) -> Plan:
    """Return the plan of a case; raises ConfigError where the case expects an error."""
    config = json.loads((case / "config.json").read_text(encoding="utf-8"))
    given = json.loads((case / "facts.json").read_text(encoding="utf-8"))
    return compile_plan(config, host_facts(given["facts"]), request(given["request"]))


def expected(case: Path) -> tuple[str, str]:
    """Return name and text of the file that the compiler's result belongs in."""
    try:
        return "plan.txt", explain(plan_of(case))
    except ConfigError as error:
        return "error.txt", f"{error}\n"


def difference(case: Path) -> str:
    """Return a unified diff between the file and the compiler's result; "" if they match."""
    name, text = expected(case)
    path = case / name
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    lines = difflib.unified_diff(
        old.splitlines(True), text.splitlines(True), f"{case.name}/{name}", "the compiler"
    )
    return "".join(lines)
