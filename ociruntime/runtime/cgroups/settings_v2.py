"""Translate linux.resources to settings of cgroup v2 control files.

Source: Documentation/admin-guide/cgroup-v2.  The specification expresses resources in v1 terms.  A
setting without an equivalent in v2 is refused, never skipped (config-linux.md, unified), unless its
value has no effect (0, false).
"""

from __future__ import annotations

from typing import Any, NoReturn

from ociruntime.base.cpu_shares import weight_of_shares
from ociruntime.base.errors import ConfigError
from ociruntime.runtime.cgroups.shared_settings import (
    Converter,
    Setting,
    device_number,
    huge_page_limits,
    huge_page_size,
)

# Files that move, kill or freeze processes: only the lifecycle commands write to them.
_NOT_RESOURCES = ("cgroup.procs", "cgroup.threads", "cgroup.kill", "cgroup.freeze")
_UNSET_SWAPPINESS = 0xFFFFFFFFFFFFFFFF


def _one(controller: str, file: str, value: object, where: str, coupled: str = "") -> Setting:
    return Setting(2, controller, ((file, str(value)),), where, coupled)


def _refuse(where: str, hint: str = "") -> NoReturn:
    raise ConfigError(where, "has no equivalent in cgroup v2, which this host uses", hint)


def _bytes_or_max(value: int) -> str:
    return str(value) if value >= 0 else "max"


def cpu(section: dict[str, Any], where: str) -> list[Setting]:
    """Convert ``cpu`` of linux.resources; shares become cpu.weight.

    Raises ConfigError for realtime settings, which v2 does not have.
    """
    for field in ("realtimeRuntime", "realtimePeriod"):
        if section.get(field):
            _refuse(f"{where}.{field}")
    settings = []
    if shares := section.get("shares"):
        value = weight_of_shares(shares)
        settings.append(_one("cpu", "cpu.weight", value, f"{where}.shares", "weight"))
    if (idle := section.get("idle")) is not None:
        settings.append(_one("cpu", "cpu.idle", idle, f"{where}.idle", "weight"))
    quota, period = section.get("quota"), section.get("period")
    if quota or period:
        # Writing only a quota to cpu.max keeps the period; a period cannot be written alone.
        fields = [str(quota) if quota > 0 else "max"] if quota else []
        fields += [str(period)] if period else []
        path = f"{where}.quota" if quota else f"{where}.period"
        files = (("cpu.max", " ".join(fields)),)
        settings.append(Setting(2, "cpu", files, path, "bandwidth", keep_first=not quota))
    if (burst := section.get("burst")) is not None:
        files = (("cpu.max.burst", str(burst)),)
        path = f"{where}.burst"
        settings.append(Setting(2, "cpu", files, path, "bandwidth", optional=burst == 0))
    return settings


def memory(section: dict[str, Any], where: str) -> list[Setting]:
    """Convert ``memory`` of linux.resources; the limit comes last.

    Raises ConfigError for a value that v2 cannot express, and for an invalid ``swap``.
    """
    for field in ("kernel", "kernelTCP", "disableOOMKiller"):
        if section.get(field):
            _refuse(f"{where}.{field}")
    if section.get("swappiness") not in (None, _UNSET_SWAPPINESS):
        _refuse(f"{where}.swappiness", "remove it: the host's vm.swappiness applies")
    if section.get("useHierarchy") is False:
        _refuse(f"{where}.useHierarchy", "remove it: accounting is always hierarchical on v2")
    settings = []
    if reservation := section.get("reservation"):
        value = _bytes_or_max(reservation)
        settings.append(_one("memory", "memory.low", value, f"{where}.reservation"))
    limit = section.get("limit") or 0
    swap = _swap(limit, section.get("swap") or 0, where)
    if swap:
        # On a kernel without swap the file is missing; 0 and max then need no write.
        path = f"{where}.swap" if section.get("swap") else f"{where}.limit"
        files = (("memory.swap.max", swap),)
        settings.append(Setting(2, "memory", files, path, optional=swap in ("0", "max")))
    if limit:
        floor = "memory.current" if section.get("checkBeforeUpdate") and limit > 0 else ""
        files = (("memory.max", _bytes_or_max(limit)),)
        settings.append(Setting(2, "memory", files, f"{where}.limit", floor=floor))
    return settings


def _swap(limit: int, swap: int, where: str) -> str:
    """Return the value for memory.swap.max; "" to leave the file unchanged.

    The specification's ``swap`` limits memory and swap together; memory.swap.max limits swap alone.
    Raises ConfigError if ``swap`` is below ``limit``, or is set without it.
    """
    if swap < 0 or (limit < 0 and swap == 0):
        return "max"
    if swap == 0:
        return ""
    if limit <= 0:
        raise ConfigError(
            f"{where}.swap",
            "needs a memory limit: swap is the limit of memory and swap together",
            f"also set {where}.limit",
        )
    if swap < limit:
        raise ConfigError(
            f"{where}.swap",
            f"{swap} is below the memory limit of {limit}",
            "swap is the limit of memory and swap together",
        )
    return str(swap - limit)


def block_io(section: dict[str, Any], where: str) -> list[Setting]:
    """Convert ``blockIO`` of linux.resources to weights and io.max limits.

    A weight is written to io.bfq.weight if the cgroup has that file, else to io.weight, scaled to
    its wider range.  Raises ConfigError for a leafWeight, which v2 does not have, and for an entry
    of ``weightDevice`` without a weight.
    """
    settings = []
    if section.get("leafWeight"):
        _refuse(f"{where}.leafWeight")
    if weight := section.get("weight"):
        files = (("io.bfq.weight", str(weight)), ("io.weight", str(io_weight(weight))))
        settings.append(Setting(2, "io", files, f"{where}.weight"))
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
        settings.append(Setting(2, "io", files, f"{path}.weight"))
    for field, word in (
        ("throttleReadBpsDevice", "rbps"),
        ("throttleWriteBpsDevice", "wbps"),
        ("throttleReadIOPSDevice", "riops"),
        ("throttleWriteIOPSDevice", "wiops"),
    ):
        for index, entry in enumerate(section.get(field) or ()):
            # v1 took a rate of 0 as "no limit", v2 refuses it.
            value = f"{device_number(entry)} {word}={entry['rate'] or 'max'}"
            settings.append(_one("io", "io.max", value, f"{where}.{field}[{index}]"))
    return settings


def io_weight(weight: int) -> int:
    """Convert a blockIO weight (10..1000) linearly to a value for io.weight (1..10000)."""
    return 1 + (weight - 10) * 9999 // 990 if weight > 10 else 1


def huge_pages(section: list[dict[str, Any]], where: str) -> list[Setting]:
    """Convert ``hugepageLimits`` to limits on used and, since Linux 5.7, on reserved pages."""
    settings = []
    for index, entry in enumerate(section):
        size = huge_page_size(entry, f"{where}[{index}]")
        settings += huge_page_limits(2, size, entry, f"{where}[{index}]", "max")
    return settings


def class_id(section: dict[str, Any], where: str) -> list[Setting]:
    """Raise ConfigError for a network.classID other than 0, which v2 cannot express."""
    if section.get("classID"):
        _refuse(f"{where}.classID")
    return []


def priorities(section: dict[str, Any], where: str) -> list[Setting]:
    """Raise ConfigError for network.priorities, which v2 cannot express."""
    if section.get("priorities"):
        _refuse(f"{where}.priorities")
    return []


def unified(section: dict[str, str], where: str) -> list[Setting]:
    """Convert ``unified`` of linux.resources, an object {name of a control file: its content}.

    Raises ConfigError for a name that is not ``CONTROLLER.FILE``, and for files that move, kill or
    freeze processes (such as ``cgroup.procs``).
    """
    settings = []
    for file, value in section.items():
        path = f'{where}["{file}"]'
        controller, dot, name = file.partition(".")
        if not (controller and dot and name) or "/" in file or "\0" in file:
            raise ConfigError(
                path,
                "is not the name of a cgroup v2 control file",
                "use a name such as memory.high",
            )
        if file in _NOT_RESOURCES:
            raise ConfigError(
                path,
                "is not a resource limit: the file moves, kills or freezes processes",
                "remove it",
            )
        settings.append(_one("" if controller == "cgroup" else controller, file, value, path))
    return settings


CONVERTERS: dict[str, Converter] = {
    "cpu": cpu,
    "block_io": block_io,
    "huge_pages": huge_pages,
    "class_id": class_id,
    "priorities": priorities,
    "memory": memory,
}
