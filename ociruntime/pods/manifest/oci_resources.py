"""Convert limits of apps and pods: isolators to OCI ``linux.resources`` and cgroup files."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ociruntime.pods.manifest import isolators

Json = dict[str, Any]
Write = tuple[str, str]


CPU_PERIOD = 100_000  # microseconds

# Isolator -> the controller that enforces it.
CONTROLLERS = {
    isolators.MEMORY: "memory",
    isolators.CPU: "cpu",
    isolators.CPU_SHARES: "cpu",
    isolators.PIDS: "pids",
}


def resources(wanted: list[isolators.Isolator], most_cpu: int | None = None) -> Json:
    """Return ``linux.resources``; ``most_cpu`` is the pod's CPU limit in thousandths of a CPU."""
    made: Json = {}
    memory = isolators.memory_limit(wanted)
    if memory is not None:
        made["memory"] = {"limit": memory}
    milli = isolators.cpu_limit(wanted)
    if milli is not None:
        # cgroup v1 refuses a limit above that of the parent.
        milli = min(milli, most_cpu or milli)
        made["cpu"] = {"quota": milli * CPU_PERIOD // 1000, "period": CPU_PERIOD}
    shares = isolators.cpu_shares(wanted)
    if shares is not None:
        made.setdefault("cpu", {})["shares"] = shares
    pids = isolators.pids_limit(wanted)
    if pids is not None:
        made["pids"] = {"limit": pids}
    return made


def kept(
    wanted: list[isolators.Isolator], controllers: Collection[str] | None
) -> list[isolators.Isolator]:
    """Return the limits that can be enforced with ``controllers``; None: any of them."""
    return [
        isolator
        for isolator in wanted
        if controllers is None or CONTROLLERS.get(isolator["name"]) in controllers
    ]


def skipped(wanted: list[isolators.Isolator], controllers: Collection[str]) -> list[str]:
    """Return a warning for each limit that cannot be enforced with ``controllers``."""
    return [
        f"ignoring the limit {isolator['name']}: this host has no {needed} cgroup controller"
        for isolator in wanted
        if (needed := CONTROLLERS.get(isolator["name"])) and needed not in controllers
    ]


def divided(resources: Json) -> list[Write]:
    """Return the writes for cgroup v1, in order."""
    found = []
    memory = resources.get("memory", {}).get("limit")
    if memory:
        # Before Linux 5.11 the apps' usage does not count here without it.
        found += [("memory.use_hierarchy", "1"), ("memory.limit_in_bytes", str(memory))]
    cpu = resources.get("cpu", {})
    if cpu.get("quota"):
        found.append(("cpu.cfs_period_us", str(cpu["period"])))
        found.append(("cpu.cfs_quota_us", str(cpu["quota"])))
    if cpu.get("shares"):
        found.append(("cpu.shares", str(cpu["shares"])))
    return found + _pids(resources)


def unified(resources: Json) -> list[Write]:
    """Return the writes for cgroup v2."""
    found = []
    memory = resources.get("memory", {}).get("limit")
    if memory:
        found.append(("memory.max", str(memory)))
    cpu = resources.get("cpu", {})
    if cpu.get("quota"):
        found.append(("cpu.max", f"{cpu['quota']} {cpu['period']}"))
    if cpu.get("shares"):
        # Map 2..262144 to 1..10000 with the same formula as the runtimes.
        shares = min(max(int(cpu["shares"]), 2), 262144)
        found.append(("cpu.weight", str(1 + (shares - 2) * 9999 // 262142)))
    return found + _pids(resources)


def _pids(resources: Json) -> list[Write]:
    pids = resources.get("pids", {}).get("limit")
    return [("pids.max", str(pids))] if pids else []
