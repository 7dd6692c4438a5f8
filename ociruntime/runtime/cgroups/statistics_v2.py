"""Read usage counters from cgroup v2 control files, as members of runc's `events --stats`.

The members have the same names as for v1.  Sources: Documentation/admin-guide/cgroup-v2; runc for
the conversion of values.  Times are in nanoseconds, sizes in bytes.
"""

from __future__ import annotations

from typing import Any

from ociruntime.base.files import whole_number
from ociruntime.runtime.cgroups.control_files import (
    UNLIMITED,
    keyed,
    number,
    page_sizes,
    text,
    without_zeros,
)

_MICROSECOND = 1000
_IO = {
    "rbytes": ("ioServiceBytesRecursive", "Read"),
    "wbytes": ("ioServiceBytesRecursive", "Write"),
    "dbytes": ("ioServiceBytesRecursive", "Discard"),
    "rios": ("ioServicedRecursive", "Read"),
    "wios": ("ioServicedRecursive", "Write"),
    "dios": ("ioServicedRecursive", "Discard"),
}


def cpu(directory: str) -> dict[str, Any]:
    """Return the statistics member ``cpu``: usage and throttling in nanoseconds, pressure (PSI).

    v2 has no counters per CPU.
    """
    stat = keyed(directory, "cpu.stat")
    throttling = {
        "periods": stat.get("nr_periods", 0),
        "throttledPeriods": stat.get("nr_throttled", 0),
        "throttledTime": stat.get("throttled_usec", 0) * _MICROSECOND,
    }
    usage = {
        **without_zeros({"total": stat.get("usage_usec", 0) * _MICROSECOND}),
        "kernel": stat.get("system_usec", 0) * _MICROSECOND,
        "user": stat.get("user_usec", 0) * _MICROSECOND,
    }
    counters = {"usage": usage, "throttling": without_zeros(throttling)}
    return {**counters, **pressure(directory, "cpu")}


def memory(directory: str) -> dict[str, Any]:
    """Return the statistics member ``memory``: usage, limits, pressure, and memory.stat as ``raw``.

    As on v1, the member ``swap`` is the sum of memory and swap; v2 has no peak value of this sum.
    """
    raw = keyed(directory, "memory.stat")
    usage, limit = number(directory, "memory.current"), number(directory, "memory.max")
    swap, swap_limit = 0, 0
    if text(directory, "memory.swap.current"):
        swap = number(directory, "memory.swap.current")
        swap_limit = number(directory, "memory.swap.max")
    both = min(swap_limit + limit, UNLIMITED)
    nothing = {"limit": 0, "failcnt": 0}
    peak = number(directory, "memory.peak")
    counters: dict[str, Any] = {
        **without_zeros({"cache": raw.get("file", 0)}),
        "usage": {"limit": limit, **without_zeros({"usage": usage, "max": peak}), "failcnt": 0},
        "swap": {"limit": both, **without_zeros({"usage": swap + usage}), "failcnt": 0},
        "kernel": nothing,
        "kernelTCP": nothing,
    }
    if raw:
        counters["raw"] = raw
    return {**counters, **pressure(directory, "memory")}


def blkio(directory: str) -> dict[str, Any]:
    """Return the statistics member ``blkio``: the counters of io.stat, and pressure (PSI).

    The lines of io.stat look like ``8:0 rbytes=1 wbytes=2 ...``.
    """
    counters: dict[str, Any] = {}
    for line in text(directory, "io.stat").splitlines():
        device: dict[str, Any] | None = None
        for word in line.split():
            name, equals, value = word.partition("=")
            if not equals:
                # Some kernels put several devices in one line; the counters belong to the last.
                major, minor = map(whole_number, word.partition(":")[::2])
                known = major is not None and minor is not None
                device = (
                    without_zeros({"major": major or 0, "minor": minor or 0}) if known else None
                )
            elif device is not None and name in _IO and (count := whole_number(value)) is not None:
                member, operation = _IO[name]
                entry = {**device, "op": operation, **without_zeros({"value": count})}
                counters.setdefault(member, []).append(entry)
    return {**counters, **pressure(directory, "io")}


def hugetlb(directory: str) -> dict[str, Any]:
    """Return the statistics member ``hugetlb``: the usage in bytes for each huge page size.

    Since Linux 5.7, the usage includes reserved pages.
    """
    counters = {}
    for size in page_sizes(directory, "current"):
        prefix = f"hugetlb.{size}"
        if text(directory, f"{prefix}.rsvd.current"):
            prefix += ".rsvd"
        failed = keyed(directory, f"hugetlb.{size}.events").get("max", 0)
        used = without_zeros({"usage": number(directory, f"{prefix}.current")})
        counters[size] = {**used, "failcnt": failed}
    return counters


def pressure(directory: str, kind: str) -> dict[str, Any]:
    """Return the pressure (PSI) of ``cpu``, ``memory`` or ``io`` as ``{"psi": {...}}``.

    The file ``KIND.pressure`` has lines like ``some avg10=0.00 avg60=0.00 avg300=0.00 total=0``.
    Returns {} if the kernel has no such file (CONFIG_PSI).
    """
    lines = {}
    for line in text(directory, f"{kind}.pressure").splitlines():
        name, _, pairs = line.partition(" ")
        values: dict[str, float] = {}
        for pair in pairs.split():
            key, _, value = pair.partition("=")
            units, point, fraction = value.partition(".")
            count, hundredths = whole_number(units), whole_number(fraction) if point else 0
            if count is not None and hundredths is not None:
                values[key] = float(value) if point else count
        lines[name] = values
    return {"psi": lines} if lines else {}
