"""Translate linux.resources to settings of cgroup v1 control files.

Sources: config-linux.md of the runtime-spec, Documentation/admin-guide/cgroup-v1.  Each function
takes one section of the resources and its JSON path, and returns settings in the order in which
they must be written.  In memory limits, quota, periods, shares and weights, engines send 0 for "not
set", but the kernel would take it literally; such a 0 is skipped.
"""

from __future__ import annotations

from typing import Any

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.cgroups.control_files import OOM_CONTROL
from ociruntime.runtime.cgroups.shared_settings import (
    Converter,
    Setting,
    device_number,
    huge_page_limits,
    huge_page_size,
)


def _one(
    controller: str, file: str, value: object, where: str, coupled: str = "", floor: str = ""
) -> Setting:
    return Setting(1, controller, ((file, str(value)),), where, coupled, floor=floor)


def cpu(section: dict[str, Any], where: str) -> list[Setting]:
    """Convert ``cpu`` of linux.resources: shares, idle, period, quota, burst, realtime."""
    settings = []
    # A positive weight and cpu.idle=1 exclude each other, burst may not exceed the quota, and the
    # quota may not exceed the parent's: the order that the kernel accepts depends on old values.
    for field, file, coupled in (
        ("shares", "cpu.shares", "weight"),
        ("idle", "cpu.idle", "weight"),
        ("period", "cpu.cfs_period_us", "bandwidth"),
        ("quota", "cpu.cfs_quota_us", "bandwidth"),
        ("burst", "cpu.cfs_burst_us", "bandwidth"),
        ("realtimePeriod", "cpu.rt_period_us", "realtime"),
        ("realtimeRuntime", "cpu.rt_runtime_us", "realtime"),
    ):
        value = section.get(field)
        if value is None or (value == 0 and field in ("shares", "period", "quota")):
            continue
        if field == "realtimePeriod" and value == 0:
            continue
        if field == "quota" and value < 0:
            value = -1
        settings.append(_one("cpu", file, value, f"{where}.{field}", coupled))
    return settings


def memory(section: dict[str, Any], where: str) -> list[Setting]:
    """Convert ``memory`` of linux.resources; the limits come last.

    Raises ConfigError if the limit of memory and swap together is below the memory limit.
    """
    settings = []
    swappiness = section.get("swappiness")
    # Docker's "not set" is -1 converted to an unsigned number.
    if swappiness is not None and swappiness != 0xFFFFFFFFFFFFFFFF:
        settings.append(_one("memory", "memory.swappiness", swappiness, f"{where}.swappiness"))
    if section.get("disableOOMKiller"):
        settings.append(_one("memory", OOM_CONTROL, 1, f"{where}.disableOOMKiller"))
    if (hierarchical := section.get("useHierarchy")) is not None:
        path = f"{where}.useHierarchy"
        settings.append(_one("memory", "memory.use_hierarchy", int(hierarchical), path))
    for field, file in (
        ("kernel", "memory.kmem.limit_in_bytes"),
        ("kernelTCP", "memory.kmem.tcp.limit_in_bytes"),
        ("reservation", "memory.soft_limit_in_bytes"),
    ):
        if value := section.get(field):
            settings.append(_one("memory", file, value, f"{where}.{field}"))
    limit = section.get("limit") or 0
    swap = section.get("swap") or 0
    floor = "memory.usage_in_bytes" if section.get("checkBeforeUpdate") else ""
    if limit:
        path = f"{where}.limit"
        settings.append(_one("memory", "memory.limit_in_bytes", limit, path, "memory", floor))
    if limit == -1 and not swap:
        # The memory+swap limit must not be below the memory limit, so it becomes unlimited, too.
        files = (("memory.memsw.limit_in_bytes", "-1"),)
        settings.append(Setting(1, "memory", files, f"{where}.limit", "memory", optional=True))
    if swap:
        if limit > swap > 0 or (limit < 0 < swap):
            raise ConfigError(
                f"{where}.swap",
                f"{swap} is below the memory limit of {limit}",
                "swap is the limit of memory and swap together",
            )
        files = (("memory.memsw.limit_in_bytes", str(swap)),)
        settings.append(Setting(1, "memory", files, f"{where}.swap", "memory", optional=swap == -1))
    return settings


def block_io(section: dict[str, Any], where: str) -> list[Setting]:
    """Convert ``blockIO`` of linux.resources: weights and throttling.

    The weight files are named after the CFQ scheduler up to Linux 4.20, after BFQ since 5.0.
    Raises ConfigError for an entry of ``weightDevice`` without a weight.
    """
    settings = []
    for field, names in (
        ("weight", ("blkio.weight", "blkio.bfq.weight")),
        ("leafWeight", ("blkio.leaf_weight",)),
    ):
        if value := section.get(field):
            files = tuple((name, str(value)) for name in names)
            settings.append(Setting(1, "blkio", files, f"{where}.{field}"))
    for index, entry in enumerate(section.get("weightDevice") or ()):
        path = f"{where}.weightDevice[{index}]"
        if not entry.get("weight") and not entry.get("leafWeight"):
            raise ConfigError(path, "weight or leafWeight is required")
        for field, names in (
            ("weight", ("blkio.weight_device", "blkio.bfq.weight_device")),
            ("leafWeight", ("blkio.leaf_weight_device",)),
        ):
            if value := entry.get(field):
                files = tuple((name, f"{device_number(entry)} {value}") for name in names)
                settings.append(Setting(1, "blkio", files, f"{path}.{field}"))
    for field, name in (
        ("throttleReadBpsDevice", "blkio.throttle.read_bps_device"),
        ("throttleWriteBpsDevice", "blkio.throttle.write_bps_device"),
        ("throttleReadIOPSDevice", "blkio.throttle.read_iops_device"),
        ("throttleWriteIOPSDevice", "blkio.throttle.write_iops_device"),
    ):
        for index, entry in enumerate(section.get(field) or ()):
            value = f"{device_number(entry)} {entry['rate']}"
            settings.append(_one("blkio", name, value, f"{where}.{field}[{index}]"))
    return settings


def huge_pages(section: list[dict[str, Any]], where: str) -> list[Setting]:
    """Convert ``hugepageLimits`` to limits on used and, since Linux 5.7, on reserved pages."""
    settings = []
    for index, entry in enumerate(section):
        size = huge_page_size(entry, f"{where}[{index}]")
        settings += huge_page_limits(1, size, entry, f"{where}[{index}]", "limit_in_bytes")
    return settings


def class_id(section: dict[str, Any], where: str) -> list[Setting]:
    """Convert ``network.classID``, with which the kernel tags packets for traffic control."""
    if not (value := section.get("classID")):
        return []
    return [_one("net_cls", "net_cls.classid", value, f"{where}.classID")]


def priorities(section: dict[str, Any], where: str) -> list[Setting]:
    """Convert ``network.priorities`` to one setting of net_prio.ifpriomap per interface."""
    return [
        _one(
            "net_prio",
            "net_prio.ifpriomap",
            f"{entry['name']} {entry['priority']}",
            f"{where}.priorities[{index}]",
        )
        for index, entry in enumerate(section.get("priorities") or ())
    ]


CONVERTERS: dict[str, Converter] = {
    "cpu": cpu,
    "block_io": block_io,
    "huge_pages": huge_pages,
    "class_id": class_id,
    "priorities": priorities,
    "memory": memory,
}
