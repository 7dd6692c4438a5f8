"""Read usage counters from cgroup v1 control files, as members of runc's `events --stats`.

Source: Documentation/admin-guide/cgroup-v1.  Times are in nanoseconds, sizes in bytes.
"""

from __future__ import annotations

from typing import Any

from ociruntime.base.files import whole_number
from ociruntime.runtime.cgroups.control_files import (
    keyed,
    number,
    page_sizes,
    text,
    without_zeros,
)

_TICK = 10_000_000  # nanoseconds of a clock tick: cpuacct.stat counts in USER_HZ, which is 100

_CPUSET = (
    ("cpu_exclusive", "cpuset.cpu_exclusive"),
    ("mem_hardwall", "cpuset.mem_hardwall"),
    ("mem_exclusive", "cpuset.mem_exclusive"),
    ("memory_migrate", "cpuset.memory_migrate"),
    ("memory_spread_page", "cpuset.memory_spread_page"),
    ("memory_spread_slab", "cpuset.memory_spread_slab"),
    ("memory_pressure", "cpuset.memory_pressure"),
    ("sched_load_balance", "cpuset.sched_load_balance"),
    ("sched_relax_domain_level", "cpuset.sched_relax_domain_level"),
)
CPUSET_MEMBERS = tuple(member for member, _ in _CPUSET)
# Member -> the files with its counters: BFQ's, CFQ's (up to Linux 4) and the throttling files.
_BLKIO = (
    ("ioServiceBytesRecursive", ("bfq.io_service_bytes_recursive", "io_service_bytes_recursive",
                                 "throttle.io_service_bytes_recursive",
                                 "throttle.io_service_bytes")),
    ("ioServicedRecursive", ("bfq.io_serviced_recursive", "io_serviced_recursive",
                             "throttle.io_serviced_recursive", "throttle.io_serviced")),
    ("ioQueueRecursive", ("bfq.io_queued_recursive", "io_queued_recursive")),
    ("ioServiceTimeRecursive", ("bfq.io_service_time_recursive", "io_service_time_recursive")),
    ("ioWaitTimeRecursive", ("bfq.io_wait_time_recursive", "io_wait_time_recursive")),
    ("ioMergedRecursive", ("bfq.io_merged_recursive", "io_merged_recursive")),
    ("ioTimeRecursive", ("bfq.time_recursive", "time_recursive")),
    ("sectorsRecursive", ("bfq.sectors_recursive", "sectors_recursive")),
)  # fmt: skip


def cpuacct(directory: str) -> dict[str, Any]:
    """Return the CPU time used, in nanoseconds, as ``{"usage": {...}}``.

    The inner members are the total, the times per CPU, and the times in kernel mode and user mode.
    """
    ticks = keyed(directory, "cpuacct.stat")
    usage: dict[str, Any] = without_zeros({"total": number(directory, "cpuacct.usage")})
    if percpu := [
        whole_number(word) or 0 for word in text(directory, "cpuacct.usage_percpu").split()
    ]:
        usage["percpu"] = percpu
    # The first line is the heading "cpu user system"; a line for each CPU follows.
    lines = [line.split() for line in text(directory, "cpuacct.usage_all").splitlines()[1:]]
    if lines := [fields for fields in lines if len(fields) > 2]:
        usage["percpu_kernel"] = [whole_number(fields[2]) or 0 for fields in lines]
        usage["percpu_user"] = [whole_number(fields[1]) or 0 for fields in lines]
    usage["kernel"] = ticks.get("system", 0) * _TICK
    usage["user"] = ticks.get("user", 0) * _TICK
    return {"usage": usage}


def cpu(directory: str) -> dict[str, Any]:
    """Return the CPU throttling statistics as ``{"throttling": {...}}``.

    The inner members are the number of periods, the number of throttled periods, and the throttled
    time in nanoseconds.
    """
    stat = keyed(directory, "cpu.stat")
    throttling = {
        "periods": stat.get("nr_periods", 0),
        "throttledPeriods": stat.get("nr_throttled", 0),
        "throttledTime": stat.get("throttled_time", 0),
    }
    return {"throttling": without_zeros(throttling)}


def cpuset(directory: str) -> dict[str, Any]:
    """Return the numeric settings of a v1 cpuset as {member name: number}.

    The lists of CPUs and memory nodes are left out.
    """
    return {member: number(directory, file) for member, file in _CPUSET}


def memory(directory: str) -> dict[str, Any]:
    """Return the statistics member ``memory``: the contents of memory.stat, and usage and limits.

    The usages and limits are for memory, memory+swap, kernel memory and kernel TCP buffers.
    """
    raw = keyed(directory, "memory.stat")
    counters: dict[str, Any] = without_zeros({"cache": raw.get("cache", 0)})
    for member, prefix in (
        ("usage", "memory"),
        ("swap", "memory.memsw"),
        ("kernel", "memory.kmem"),
        ("kernelTCP", "memory.kmem.tcp"),
    ):
        counters[member] = {
            "limit": number(directory, f"{prefix}.limit_in_bytes"),
            **without_zeros(
                {
                    "usage": number(directory, f"{prefix}.usage_in_bytes"),
                    "max": number(directory, f"{prefix}.max_usage_in_bytes"),
                }
            ),
            "failcnt": number(directory, f"{prefix}.failcnt"),
        }
    if raw:
        counters["raw"] = raw
    return counters


def blkio(directory: str) -> dict[str, Any]:
    """Return the statistics member ``blkio``: {counter name: list of values by device}.

    BFQ, CFQ and the throttling code name their files differently, so each list is read from the
    first of several files that is not empty.
    """
    counters = {}
    for member, files in _BLKIO:
        for file in files:
            if entries := _entries(text(directory, f"blkio.{file}")):
                counters[member] = entries
                break
    return counters


def _entries(content: str) -> list[dict[str, Any]]:
    """Parse the lines of a blkio file, such as ``8:0 Read 4096`` or ``8:0 4096``.

    Skips the lines with totals, which have no device number.
    """
    entries = []
    for line in content.splitlines():
        fields = line.replace(":", " ").split()
        if len(fields) < 3:
            continue
        major, minor, value = (
            whole_number(fields[0]),
            whole_number(fields[1]),
            whole_number(fields[-1]),
        )
        if major is None or minor is None or value is None:
            continue
        entry: dict[str, Any] = without_zeros({"major": major, "minor": minor})
        if len(fields) > 3:
            entry["op"] = fields[2]
        entries.append({**entry, **without_zeros({"value": value})})
    return entries


def hugetlb(directory: str) -> dict[str, Any]:
    """Return the statistics member ``hugetlb``: the usage in bytes for each huge page size.

    Since Linux 5.7, the usage includes reserved pages.
    """
    counters = {}
    for size in page_sizes(directory, "usage_in_bytes"):
        prefix = f"hugetlb.{size}"
        if text(directory, f"{prefix}.rsvd.usage_in_bytes"):
            prefix += ".rsvd"
        used = {
            "usage": number(directory, f"{prefix}.usage_in_bytes"),
            "max": number(directory, f"{prefix}.max_usage_in_bytes"),
        }
        counters[size] = {**without_zeros(used), "failcnt": number(directory, f"{prefix}.failcnt")}
    return counters
