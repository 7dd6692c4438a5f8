"""Translate cgroup settings, device rules and annotations to systemd unit properties.

systemd owns the control files of its units: after ``daemon-reload`` or ``set-property`` it rewrites
them from the unit's properties.  So every setting for which systemd has a property is set as a
property.  All settings are also written to the control files, because some have no property, and
systemd rounds the values of some properties.  Source: org.freedesktop.systemd1(5),
systemd.resource-control(5).

The functions are pure.  A property is (name, D-Bus signature, value).  The tables list, for each
control file, the property, its conversion and the first version of systemd that knows the property.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.cgroups.device_policy import DevicePolicy, lines_v1
from ociruntime.runtime.cgroups.gvariant import Malformed, parse
from ociruntime.runtime.cgroups.shared_settings import Setting
from ociruntime.runtime.cgroups.systemd_unit import directory_name
from ociruntime.runtime.spec.annotations import PROPERTY, SUBGROUP, where
from ociruntime.runtime.spec.cpu_list import listed_numbers

Property: TypeAlias = tuple[str, str, Any]

INFINITY = 0xFFFFFFFFFFFFFFFF  # "no limit" in every property of type t
_MILLION = 1_000_000
_ONE_PERCENT = 10_000  # microseconds: 1 % of a second, systemd's unit of a quota
_USUAL_PERIOD = 100_000
_MOST_DIGITS = 20  # decimal digits of a 64-bit number
_SUFFIXES = {"K": 10, "M": 20, "G": 30, "T": 40}


def amount(text: str) -> int | None:
    """Parse the number in a control file, such as ``512M``; return None if it is malformed.

    Returns INFINITY for ``max``, for ``-1``, and for numbers that exceed 64 bits.
    """
    text = text.strip()
    if text in ("max", "-1"):
        return INFINITY
    shift = _SUFFIXES.get(text[-1:].upper(), 0)
    digits = text[:-1] if shift else text
    # int() refuses thousands of digits.  Such a number exceeds 64 bits, so INFINITY stands for it.
    if not (digits.isascii() and digits.isdigit()):
        return None
    digits = digits.lstrip("0") or "0"
    if len(digits) > _MOST_DIGITS:
        return INFINITY
    return min(int(digits) << shift, INFINITY)


def _plain(name: str, text: str, properties: dict[str, Property]) -> None:
    value = amount(text)
    if value is not None:
        properties[name] = (name, "t", value)


def _tasks(name: str, text: str, properties: dict[str, Property]) -> None:
    """Add the property TasksMax for pids.max to ``properties``.

    systemd refuses the limit 0, so TasksMax is then 1.  Once the init runs, both forbid forking.
    """
    value = amount(text)
    if value is not None:
        properties[name] = (name, "t", max(value, 1))


def _weight(name: str, text: str, properties: dict[str, Property]) -> None:
    """Add the weight properties for the lines of io.weight or blkio.weight to ``properties``.

    Such lines are ``100``, ``default 100`` and ``8:0 100``.
    """
    for line in text.splitlines():
        head, _, tail = line.strip().rpartition(" ")
        if ":" in head:
            _add_device(f"{name[:2]}DeviceWeight", head, tail, properties)
        else:
            _plain(name, tail, properties)


def _idle(name: str, text: str, properties: dict[str, Property]) -> None:
    if text.strip() == "1":
        properties[name] = (name, "t", 0)  # CPUWeight=idle


def _quota(name: str, text: str, properties: dict[str, Property]) -> None:
    """Add the quota in cpu.max to ``properties``.

    The text is ``QUOTA``, ``QUOTA PERIOD``, or ``- PERIOD`` to keep the quota.
    """
    fields = text.split()
    if fields:
        _add_quota(
            name, amount(fields[0]), amount(fields[1]) if len(fields) > 1 else None, properties
        )


def _add_quota(
    name: str, quota: int | None, period: int | None, properties: dict[str, Property]
) -> None:
    if period:
        properties["CPUQuotaPeriodUSec"] = ("CPUQuotaPeriodUSec", "t", period)
    period = properties.get("CPUQuotaPeriodUSec", ("", "", _USUAL_PERIOD))[2]
    if quota == INFINITY:
        properties[name] = (name, "t", INFINITY)
    elif quota:
        # Rounded up: a parent's quota must not be below that of its children.
        percent = -(-quota * _MILLION // (period * _ONE_PERCENT))
        properties[name] = (name, "t", percent * _ONE_PERCENT)


def _quota_v1(name: str, text: str, properties: dict[str, Property]) -> None:
    """Add the quota in cpu.cfs_quota_us to ``properties``.

    The quota is for the period that is already in ``properties``, or 100 ms if there is none.
    """
    _add_quota(name, amount(text), None, properties)


def _mask(name: str, text: str, properties: dict[str, Property]) -> None:
    """Add a list of CPUs or memory nodes, such as ``0-1,7``, to ``properties`` as a bit mask.

    The mask is an array of bytes, least significant first.
    """
    try:
        bits = sum(1 << number for number in listed_numbers("", text))
    except ConfigError:
        return  # the kernel reports the error
    properties[name] = (name, "ay", bits.to_bytes((bits.bit_length() + 7) // 8, "little"))


_RATES = {
    "rbps": "IOReadBandwidthMax",
    "wbps": "IOWriteBandwidthMax",
    "riops": "IOReadIOPSMax",
    "wiops": "IOWriteIOPSMax",
}


def _io_max(name: str, text: str, properties: dict[str, Property]) -> None:
    """Add the limits in io.max to ``properties``.

    The file has a line like ``8:0 rbps=1048576 wiops=120`` for each device.
    """
    del name
    for line in text.splitlines():
        number, *pairs = line.split() or [""]
        for pair in pairs:
            key, _, value = pair.partition("=")
            if key in _RATES:
                _add_device(_RATES[key], number, value, properties)


def _rate_v1(name: str, text: str, properties: dict[str, Property]) -> None:
    """Add a v1 throttling rate for a device, such as ``8:0 1048576``, to ``properties``."""
    number, _, value = text.strip().partition(" ")
    _add_device(name, number, value, properties)


def _add_device(name: str, number: str, text: str, properties: dict[str, Property]) -> None:
    value = amount(text)
    if value is not None:
        # systemd accepts only paths, so use udev's symbolic link to the device node.
        entry = (f"/dev/block/{number}", value)
        present = properties.get(name, ("", "", []))[2]
        others = [device for device in present if device[0] != entry[0]]
        properties[name] = (name, "a(st)", [*others, entry])


Conversion: TypeAlias = Callable[[str, str, dict[str, Property]], None]

_TABLES: dict[int, dict[str, tuple[str, Conversion, int]]] = {
    2: {
        "cpu.weight": ("CPUWeight", _plain, 232),
        "cpu.idle": ("CPUWeight", _idle, 252),
        "cpu.max": ("CPUQuotaPerSecUSec", _quota, 213),
        "cpuset.cpus": ("AllowedCPUs", _mask, 244),
        "cpuset.mems": ("AllowedMemoryNodes", _mask, 244),
        "io.weight": ("IOWeight", _weight, 230),
        "io.max": ("", _io_max, 230),
        "memory.min": ("MemoryMin", _plain, 240),
        "memory.low": ("MemoryLow", _plain, 231),
        "memory.high": ("MemoryHigh", _plain, 231),
        "memory.max": ("MemoryMax", _plain, 231),
        "memory.swap.max": ("MemorySwapMax", _plain, 232),
        "pids.max": ("TasksMax", _tasks, 227),
    },
    1: {
        "cpu.shares": ("CPUShares", _plain, 213),
        "cpu.cfs_quota_us": ("CPUQuotaPerSecUSec", _quota_v1, 213),
        "cpu.cfs_period_us": ("CPUQuotaPeriodUSec", _plain, 242),
        "blkio.weight": ("BlockIOWeight", _plain, 213),
        "blkio.throttle.read_bps_device": ("BlockIOReadBandwidth", _rate_v1, 213),
        "blkio.throttle.write_bps_device": ("BlockIOWriteBandwidth", _rate_v1, 213),
        "memory.limit_in_bytes": ("MemoryLimit", _plain, 213),
        "pids.max": ("TasksMax", _tasks, 227),
    },
}
_PERIOD_SINCE = 242


def limits(settings: Iterable[Setting], version: int) -> list[Property]:
    """Return the unit properties for cgroup settings, without those unknown to systemd ``version``.

    If two settings map to the same property, the later setting wins, as in the control files.
    """
    properties: dict[str, Property] = {}
    for setting in settings:
        for file, text in setting.files:
            name, convert, since = _TABLES[setting.version].get(file, ("", None, 0))
            if convert is not None:
                if version >= since:
                    convert(name, f"- {text}" if setting.keep_first else text, properties)
                break
    if version < _PERIOD_SINCE:
        properties.pop("CPUQuotaPeriodUSec", None)
    return list(properties.values())


def device_properties(policy: DevicePolicy, groups: str) -> list[Property]:
    """Return the properties DevicePolicy and DeviceAllow; ``groups`` is the text of /proc/devices.

    The properties cannot express some rules, such as a denied device, or a minor number with any
    major.  DevicePolicy is then ``auto``, which restricts nothing.  The container remains
    restricted, because an eBPF program or a v1 device list is always installed as well.
    """
    entries = None if policy.allow_rest else _device_entries(policy, groups)
    if entries is None:
        return [("DevicePolicy", "s", "auto"), ("DeviceAllow", "a(ss)", [])]
    return [("DevicePolicy", "s", "strict"), ("DeviceAllow", "a(ss)", entries)]


def _device_entries(policy: DevicePolicy, groups: str) -> list[tuple[str, str]] | None:
    try:
        lines = lines_v1(policy)
    except ConfigError:
        return None  # lines_v1() refused a rule that v1 device lists cannot express
    entries = []
    names = _group_names(groups)
    for _, line, _ in lines[1:]:
        kind, number, access = line.split()
        major, _, minor = number.partition(":")
        node_type = "char" if kind == "c" else "block"
        if minor != "*" and major != "*":
            name = f"/dev/{node_type}/{major}:{minor}"
        elif minor == "*":
            group = "*" if major == "*" else names.get((kind, major), "")
            if not group:
                return None
            name = f"{node_type}-{group}"
        else:
            return None
        entries.append((name, access))
    return entries


def _group_names(groups: str) -> dict[tuple[str, str], str]:
    """Return the driver names in /proc/devices by (type, major): ``{("c", "136"): "pts"}``.

    ``groups`` is the text of /proc/devices.
    """
    names = {}
    kind = ""
    for line in groups.splitlines():
        if line.endswith("devices:"):
            kind = line[0].lower()
        elif line:
            major, _, name = line.strip().partition(" ")
            names[kind, major] = name
    return names


# Annotations of config.json for the systemd driver.
#
#     org.systemd.property.NAME    a property of the unit, in the text form of GVariant; NAMESec
#                                  is a number of seconds and becomes NAMEUSec (runc, crun)
#     run.oci.systemd.subgroup     the name of a cgroup below the unit's, in which the container
#                                  is placed; empty: none (crun)
#
# Pure.

# Properties that the runtime sets itself; annotations must not override them.
_RESERVED = ("PIDs", "PIDFDs", "Slice", "Delegate", "DelegateSubgroup", "Scope")
_MICROSECONDS = 1_000_000


def unit_properties(annotations: Mapping[str, str]) -> dict[str, Property]:
    """Return {JSON path: property} for the org.systemd.property.* annotations.

    Raises ConfigError for an invalid value.
    """
    return {
        where(key): _property(key, key[len(PROPERTY) :], text)
        for key, text in annotations.items()
        if key.startswith(PROPERTY)
    }


def _property(key: str, name: str, text: str) -> Property:
    if not (name.isascii() and name.isalnum() and len(name) > 2):
        raise ConfigError(where(key), f'"{name}" is not a valid systemd property name')
    if name in _RESERVED:
        raise ConfigError(
            where(key),
            f'the systemd property "{name}" is reserved: the runtime sets it',
            "remove it",
        )
    try:
        text.encode()  # raises for lone surrogates, which D-Bus does not allow
        signature, value = parse(text)
    except UnicodeEncodeError:
        raise ConfigError(where(key), f"{text!r} is not valid Unicode") from None
    except Malformed as error:
        raise ConfigError(
            where(key),
            f'"{text}" is not a valid GVariant value: {error}',
            "use the GVariant text format: 'text', true, 5, uint64 5, ['a', 'b']",
        ) from None
    if not name.endswith("Sec") or name.endswith("USec"):
        return name, signature, value
    if signature not in ("y", "n", "q", "i", "u", "x", "t", "d") or not 0 <= value < 1e12:
        raise ConfigError(where(key), f'"{text}" is not a number of seconds')
    return f"{name[:-3]}USec", "t", round(value * _MICROSECONDS)


def subgroup(annotations: Mapping[str, str]) -> str:
    """Return the name of the child cgroup in the annotation run.oci.systemd.subgroup, or "".

    Raises ConfigError if it is not a valid cgroup name.
    """
    name = annotations.get(SUBGROUP, "")
    if name and (
        name in (".", "..") or "/" in name or "\0" in name or directory_name(name) != name
    ):
        raise ConfigError(
            where(SUBGROUP),
            f'"{name}" is not a valid cgroup name',
            'use a name without "/" that is not the name of a control file',
        )
    return name
