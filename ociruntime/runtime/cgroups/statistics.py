"""Read the resource usage of a container, in the format of runc's `events --stats`."""

from __future__ import annotations

from typing import Any

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.cgroups import statistics_v1, statistics_v2
from ociruntime.runtime.cgroups.cgroup import Cgroup
from ociruntime.runtime.cgroups.control_files import UNLIMITED, number, text, without_zeros
from ociruntime.runtime.spec.cpu_list import listed_numbers

_NO_MEMORY = {"limit": 0, "failcnt": 0}


def statistics(cgroup: Cgroup) -> dict[str, Any]:
    """Return the container's resource usage: the member ``data`` of a ``stats`` event.

    Counters of controllers that the host lacks are 0 or omitted, and ``network_interfaces`` is
    always null, as in runc.
    """
    return {
        "cpu": _cpu(cgroup),
        "cpuset": _cpuset(cgroup),
        "memory": _memory(cgroup),
        "pids": _pids(cgroup),
        "blkio": _by_version(cgroup, "blkio", statistics_v1.blkio, "io", statistics_v2.blkio),
        "hugetlb": _by_version(
            cgroup, "hugetlb", statistics_v1.hugetlb, "hugetlb", statistics_v2.hugetlb
        ),
        "intel_rdt": {},
        "network_interfaces": None,
    }


def _directory_of(cgroup: Cgroup, controller: str) -> tuple[str, int]:
    """Return (cgroup directory, cgroup version) of a controller; ("", 0) if the host lacks it."""
    for each in cgroup.placements:
        if controller in each.hierarchy.controllers:
            return each.directory, each.hierarchy.version
    return "", 0


def _by_version(cgroup: Cgroup, name_v1: str, v1: Any, name_v2: str, v2: Any) -> dict[str, Any]:  # noqa: ANN401
    directory, version = _directory_of(cgroup, name_v1)
    if version == 1:
        counters: dict[str, Any] = v1(directory)
        return counters
    directory, version = _directory_of(cgroup, name_v2)
    return v2(directory) if version == 2 else {}


def _cpu(cgroup: Cgroup) -> dict[str, Any]:
    directory, version = _directory_of(cgroup, "cpu")
    if version == 2:
        return statistics_v2.cpu(directory)
    counters: dict[str, Any] = {"usage": {"kernel": 0, "user": 0}, "throttling": {}}
    if version == 1:
        counters.update(statistics_v1.cpu(directory))
    directory, version = _directory_of(cgroup, "cpuacct")
    if version == 1:
        counters.update(statistics_v1.cpuacct(directory))
    return counters


def _cpuset(cgroup: Cgroup) -> dict[str, Any]:
    directory, version = _directory_of(cgroup, "cpuset")
    flags = dict.fromkeys(statistics_v1.CPUSET_MEMBERS, 0)
    if version == 1:
        flags = statistics_v1.cpuset(directory)
    lists: dict[str, Any] = {}
    for member in ("cpus", "mems"):
        listed = text(directory, f"cpuset.{member}").strip() if directory else ""
        try:
            if numbers := list(listed_numbers("", listed)) if listed else []:
                lists[member] = sorted(numbers)
        except ConfigError:
            continue
    return {**lists, **flags}


def _memory(cgroup: Cgroup) -> dict[str, Any]:
    directory, version = _directory_of(cgroup, "memory")
    if version == 1:
        return statistics_v1.memory(directory)
    if version == 2:
        return statistics_v2.memory(directory)
    return dict.fromkeys(("usage", "swap", "kernel", "kernelTCP"), _NO_MEMORY)


def _pids(cgroup: Cgroup) -> dict[str, int]:
    directory, version = _directory_of(cgroup, "pids")
    if not version:
        return {}
    limit = number(directory, "pids.max")
    current = number(directory, "pids.current")
    return without_zeros({"current": current, "limit": 0 if limit == UNLIMITED else limit})
