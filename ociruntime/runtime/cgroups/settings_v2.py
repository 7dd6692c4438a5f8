"""linux.resources -> control files of cgroup v2.

Source: Documentation/admin-guide/cgroup-v2.  The resources of the spec are written in v1
terms; settings without an equivalent are refused, never skipped (config-linux.md, unified), except
for values without effect (0, false).
"""

from __future__ import annotations

from ociruntime.base.cpu_shares import weight_of_shares
from ociruntime.base.errors import ConfigError
from ociruntime.runtime.cgroups.setting import (
    Setting,
    device_number,
    huge_page_limits,
    huge_page_size,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from ociruntime.runtime.cgroups.setting import Converter

# The files that move or stop processes: a lifecycle operation's, not a resource's.
_NOT_RESOURCES = ("cgroup.procs", "cgroup.threads", "cgroup.kill", "cgroup.freeze")
_UNSET_SWAPPINESS = 0xFFFFFFFFFFFFFFFF


def _one(controller: str, file: str, value: object, where: str, coupled: str = "") -> Setting:
    return Setting(2, controller, ((file, str(value)),), where, coupled)


def _refuse(where: str, hint: str = "") -> NoReturn:
    raise ConfigError(where, "has no equivalent in cgroup v2, which this host uses", hint)


def _bytes_or_max(value: int) -> str:
    return str(value) if value >= 0 else "max"


def cpu(section: dict[str, Any], where: str) -> list[Setting]:
    """Convert shares (to a weight), idle, quota and period (one file), burst."""
    for field in ("realtimeRuntime", "realtimePeriod"):
        if section.get(field):
            _refuse(f"{where}.{field}")
    found = []
    if shares := section.get("shares"):
        value = weight_of_shares(shares)
        found.append(_one("cpu", "cpu.weight", value, f"{where}.shares", "weight"))
    if (idle := section.get("idle")) is not None:
        found.append(_one("cpu", "cpu.idle", idle, f"{where}.idle", "weight"))
    quota, period = section.get("quota"), section.get("period")
    if quota or period:
        # A quota alone keeps the period, but not the other way round.
        words = [str(quota) if quota > 0 else "max"] if quota else []
        words += [str(period)] if period else []
        path = f"{where}.quota" if quota else f"{where}.period"
        files = (("cpu.max", " ".join(words)),)
        found.append(Setting(2, "cpu", files, path, "bandwidth", keep_first=not quota))
    if (burst := section.get("burst")) is not None:
        files = (("cpu.max.burst", str(burst)),)
        path = f"{where}.burst"
        found.append(Setting(2, "cpu", files, path, "bandwidth", optional=burst == 0))
    return found


def memory(section: dict[str, Any], where: str) -> list[Setting]:
    """Convert reservation, swap (which v2 counts without memory), and last the limit."""
    for field in ("kernel", "kernelTCP", "disableOOMKiller"):
        if section.get(field):
            _refuse(f"{where}.{field}")
    if section.get("swappiness") not in (None, _UNSET_SWAPPINESS):
        _refuse(f"{where}.swappiness", "leave it out; vm.swappiness of the host applies")
    if section.get("useHierarchy") is False:
        _refuse(f"{where}.useHierarchy", "accounting is always hierarchical there")
    found = []
    if reservation := section.get("reservation"):
        value = _bytes_or_max(reservation)
        found.append(_one("memory", "memory.low", value, f"{where}.reservation"))
    limit = section.get("limit") or 0
    swap = _swap(limit, section.get("swap") or 0, where)
    if swap:
        # Without swap there is nothing to limit, and the file is missing.
        path = f"{where}.swap" if section.get("swap") else f"{where}.limit"
        files = (("memory.swap.max", swap),)
        found.append(Setting(2, "memory", files, path, optional=swap in ("0", "max")))
    if limit:
        floor = "memory.current" if section.get("checkBeforeUpdate") and limit > 0 else ""
        files = (("memory.max", _bytes_or_max(limit)),)
        found.append(Setting(2, "memory", files, f"{where}.limit", floor=floor))
    return found


def _swap(limit: int, swap: int, where: str) -> str:
    """Return memory.swap.max for the spec's memory+swap; "" to leave it unchanged."""
    if swap < 0 or (limit < 0 and swap == 0):
        return "max"
    if swap == 0:
        return ""
    if limit <= 0:
        raise ConfigError(f"{where}.swap", "needs a memory limit", "it counts memory and swap")
    if swap < limit:
        raise ConfigError(
            f"{where}.swap", f"{swap} is below the memory limit", "it counts memory and swap"
        )
    return str(swap - limit)


def block_io(section: dict[str, Any], where: str) -> list[Setting]:
    """Convert weights (BFQ's, or io.weight with its wider range) and limits (io.max)."""
    found = []
    if section.get("leafWeight"):
        _refuse(f"{where}.leafWeight")
    if weight := section.get("weight"):
        files = (("io.bfq.weight", str(weight)), ("io.weight", str(io_weight(weight))))
        found.append(Setting(2, "io", files, f"{where}.weight"))
    for index, entry in enumerate(section.get("weightDevice") or ()):
        path = f"{where}.weightDevice[{index}]"
        if entry.get("leafWeight"):
            _refuse(f"{path}.leafWeight")
        if not (weight := entry.get("weight")):
            raise ConfigError(path, "weight or leafWeight is required")
        number = device_number(entry)
        files = (
            ("io.bfq.weight", f"{number} {weight}"),
            ("io.weight", f"{number} {io_weight(weight)}"),
        )
        found.append(Setting(2, "io", files, f"{path}.weight"))
    for field, word in (
        ("throttleReadBpsDevice", "rbps"),
        ("throttleWriteBpsDevice", "wbps"),
        ("throttleReadIOPSDevice", "riops"),
        ("throttleWriteIOPSDevice", "wiops"),
    ):
        for index, entry in enumerate(section.get(field) or ()):
            # v1 took a rate of 0 as "no limit", v2 refuses it.
            value = f"{device_number(entry)} {word}={entry['rate'] or 'max'}"
            found.append(_one("io", "io.max", value, f"{where}.{field}[{index}]"))
    return found


def io_weight(weight: int) -> int:
    """Convert the spec's 10..1000 to io.weight's 1..10000, linearly."""
    return 1 + (weight - 10) * 9999 // 990 if weight > 10 else 1


def huge_pages(section: list[dict[str, Any]], where: str) -> list[Setting]:
    """Convert to the limit on page faults and, where the kernel has it (5.7), on reservations."""
    found = []
    for index, entry in enumerate(section):
        size = huge_page_size(entry, f"{where}[{index}]")
        found += huge_page_limits(2, size, entry, f"{where}[{index}]", "max")
    return found


def class_id(section: dict[str, Any], where: str) -> list[Setting]:
    """Refuse network.classID, which v2 cannot express."""
    if section.get("classID"):
        _refuse(f"{where}.classID")
    return []


def priorities(section: dict[str, Any], where: str) -> list[Setting]:
    """Refuse network.priorities, which v2 cannot express."""
    if section.get("priorities"):
        _refuse(f"{where}.priorities")
    return []


def unified(section: dict[str, str], where: str) -> list[Setting]:
    """Return settings for file names and contents as given; a name begins with the controller."""
    found = []
    for file, value in section.items():
        path = f'{where}["{file}"]'
        controller, dot, rest = file.partition(".")
        if not (controller and dot and rest) or "/" in file or "\0" in file:
            raise ConfigError(path, "is not the name of a control file", "such as memory.high")
        if file in _NOT_RESOURCES:
            raise ConfigError(path, "is not a resource and cannot be set here")
        found.append(_one("" if controller == "cgroup" else controller, file, value, path))
    return found


CONVERTERS: dict[str, Converter] = {
    "cpu": cpu,
    "block_io": block_io,
    "huge_pages": huge_pages,
    "class_id": class_id,
    "priorities": priorities,
    "memory": memory,
}
