"""A small config, and the plan of it on a made-up host."""

from __future__ import annotations

from typing import Any

from ociruntime.runtime.plan.compiler import compile_plan
from ociruntime.runtime.plan.explain import fields_of
from ociruntime.runtime.plan.facts import HostFacts, Request
from ociruntime.runtime.plan.plan import Plan, operation_name


def config(**changes: object) -> dict[str, Any]:
    """The smallest container; ``linux`` and ``process`` are merged, the rest replaced."""
    document: dict[str, Any] = {
        "ociVersion": "1.3.0",
        "root": {"path": "rootfs"},
        "process": {"user": {"uid": 0, "gid": 0}, "args": ["/bin/true"], "cwd": "/"},
        "linux": {"namespaces": [{"type": "mount"}]},
    }
    for name in ("linux", "process"):
        part: Any = changes.pop(name, {})
        document[name].update(part)
    document.update(changes)
    return document


def facts(**changes: object) -> HostFacts:
    """A privileged process on a host with every capability and cgroup v2."""
    values: dict[str, Any] = {
        "uid": 0,
        "last_capability": 40,
        "bounding": (1 << 41) - 1,
        "cgroup_mode": "v2",
        "hierarchies": (("", "/sys/fs/cgroup/c1"),),
    }
    values.update(changes)
    return HostFacts(**values)


def request(**changes: object) -> Request:
    """The container c1 of /bundle."""
    values: dict[str, Any] = {"id": "c1", "bundle": "/bundle", "rootfs": "/bundle/rootfs"}
    values.update(changes)
    return Request(**values)


def compiled(document: dict[str, Any], host: HostFacts | None = None, **changes: object) -> Plan:
    """The plan; ``changes`` are the request's."""
    return compile_plan(document, host or facts(), request(**changes))  # type: ignore[arg-type]


def steps(plan: Plan, name: str) -> list[dict[str, Any]]:
    """The values of all operations of that name."""
    return [fields_of(one) for one in plan.operations if operation_name(one) == name]


def names(plan: Plan) -> list[str]:
    """The names of all operations, in their order."""
    return [operation_name(one) for one in plan.operations]
