"""Convert the limits in a manifest to ``linux.resources`` of an OCI config and to cgroup writes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ociruntime.base.cpu_shares import weight_of_shares
from ociruntime.pods.manifest import isolators

Json = dict[str, Any]
Write = tuple[str, str]


CPU_PERIOD = 100_000  # microseconds

SWAP = "swap"  # not a controller: swap accounting, which cgroup v1 can lack
# Isolator -> the controller that enforces it.
CONTROLLERS = {
    isolators.MEMORY: "memory",
    isolators.CPU: "cpu",
    isolators.CPU_SHARES: "cpu",
    isolators.PIDS: "pids",
    isolators.MEMORY_RESERVATION: "memory",
    isolators.MEMORY_SWAP: SWAP,
    isolators.CPU_QUOTA: "cpu",
    isolators.CPUSET_CPUS: "cpuset",
    isolators.CPUSET_MEMS: "cpuset",
}


def resources(limits: list[isolators.Isolator], most_cpu: int | None = None) -> Json:
    """Convert ``limits``, the isolators of an app or pod, to ``linux.resources`` of an OCI config.

    For an app, ``most_cpu`` is the CPU limit of its pod in thousandths of a CPU, None without a
    limit.  A higher CPU limit of the app is reduced to ``most_cpu``, because cgroup v1 refuses a
    limit above that of the parent cgroup.
    """
    made: Json = {}
    memory = isolators.memory_limit(limits)
    if memory is not None:
        made["memory"] = {"limit": memory}
    reservation = isolators.memory_reservation(limits)
    if reservation is not None:
        made.setdefault("memory", {})["reservation"] = reservation
    swap = isolators.memory_swap(limits)
    if swap is not None:
        made.setdefault("memory", {})["swap"] = swap
    milli = isolators.cpu_limit(limits)
    if milli is not None:
        # cgroup v1 refuses a limit above that of the parent.
        milli = min(milli, most_cpu or milli)
        made["cpu"] = {"quota": milli * CPU_PERIOD // 1000, "period": CPU_PERIOD}
    if quota := isolators.cpu_quota(limits):
        if most_cpu and "quota" in quota:
            most = most_cpu * quota.get("period", CPU_PERIOD) // 1000
            quota["quota"] = min(quota["quota"], most)
        made["cpu"] = dict(quota)
    shares = isolators.cpu_shares(limits)
    if shares is not None:
        made.setdefault("cpu", {})["shares"] = shares
    for name, member in ((isolators.CPUSET_CPUS, "cpus"), (isolators.CPUSET_MEMS, "mems")):
        if listed := isolators.value_of(limits, name):
            made.setdefault("cpu", {})[member] = listed
    pids = isolators.pids_limit(limits)
    if pids is not None:
        made["pids"] = {"limit": pids}
    return made


def enforceable(
    limits: list[isolators.Isolator], controllers: Collection[str] | None
) -> list[isolators.Isolator]:
    """Return the ``limits`` that the host can enforce with its cgroup ``controllers``.

    ``controllers`` contains the names that ``host_facts.controllers`` returns, or is None to return
    all limits.
    """
    return [
        isolator
        for isolator in limits
        if controllers is None or CONTROLLERS.get(isolator["name"]) in controllers
    ]


def skipped(limits: list[isolators.Isolator], controllers: Collection[str]) -> list[str]:
    """Return a warning for each limit that the host cannot enforce with its ``controllers``."""
    return [
        f"ignoring the limit {isolator['name']}: this host has no "
        f"{'swap accounting' if needed == SWAP else f'{needed} cgroup controller'}"
        for isolator in limits
        if (needed := CONTROLLERS.get(isolator["name"])) and needed not in controllers
    ]


def divided(resources: Json) -> list[Write]:
    """Return the writes that set a pod's limits in cgroup v1: pairs (file, text), in order.

    ``resources`` has the form of ``linux.resources``; only the limits that a pod can have are used.
    """
    writes = []
    memory = resources.get("memory", {}).get("limit")
    if memory:
        # Before Linux 5.11, only use_hierarchy makes the pod's limit include its apps' cgroups.
        writes += [("memory.use_hierarchy", "1"), ("memory.limit_in_bytes", str(memory))]
    cpu = resources.get("cpu", {})
    if cpu.get("quota"):
        writes.append(("cpu.cfs_period_us", str(cpu["period"])))
        writes.append(("cpu.cfs_quota_us", str(cpu["quota"])))
    if cpu.get("shares"):
        writes.append(("cpu.shares", str(cpu["shares"])))
    return writes + _pids(resources)


def unified(resources: Json) -> list[Write]:
    """Return the writes that set a pod's limits in cgroup v2: pairs (file, text), in order.

    ``resources`` has the form of ``linux.resources``; only the limits that a pod can have are used.
    """
    writes = []
    memory = resources.get("memory", {}).get("limit")
    if memory:
        writes.append(("memory.max", str(memory)))
    cpu = resources.get("cpu", {})
    if cpu.get("quota"):
        writes.append(("cpu.max", f"{cpu['quota']} {cpu['period']}"))
    if cpu.get("shares"):
        writes.append(("cpu.weight", str(weight_of_shares(int(cpu["shares"])))))
    return writes + _pids(resources)


def _pids(resources: Json) -> list[Write]:
    pids = resources.get("pids", {}).get("limit")
    return [("pids.max", str(pids))] if pids else []
