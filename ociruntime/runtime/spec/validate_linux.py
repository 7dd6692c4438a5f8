"""Check the specification's rules for the object ``linux`` in config.json."""

from __future__ import annotations

from ociruntime.base.errors import ConfigError
from ociruntime.base.linux import DEFAULT_DEVICES
from ociruntime.runtime.spec.config_types import (
    BlockIO,
    Cpu,
    Device,
    DeviceRule,
    IdMapping,
    IntelRdt,
    Linux,
    Memory,
    MemoryPolicy,
    Namespace,
    NetDevice,
    Resources,
    Seccomp,
    TimeOffset,
)

_RESERVED_GROUPS = (".", "..", "info", "mon_data", "mon_groups")  # in /sys/fs/resctrl
_WITHOUT_NODES = ("MPOL_DEFAULT", "MPOL_LOCAL")
_BALANCED = ("MPOL_BIND", "MPOL_PREFERRED_MANY")
_FLAGS_OF_NODES = ("MPOL_F_STATIC_NODES", "MPOL_F_RELATIVE_NODES")
_WITH_NODES = ("MPOL_BIND", "MPOL_INTERLEAVE", "MPOL_PREFERRED_MANY", "MPOL_WEIGHTED_INTERLEAVE")


def validate_linux(linux: Linux, namespaces: dict[str, str], warnings: list[str]) -> None:
    """Check the rules for the object ``linux``, and append to ``warnings``.

    ``namespaces``: {type: path} of ``linux.namespaces``.  Raises ConfigError for a broken rule.
    """
    for index, device in enumerate(linux.get("devices", [])):
        _device(device, f"linux.devices[{index}]")
    if ".." in linux.get("cgroupsPath", "").split("/"):  # LNX-CGPATH-04
        raise ConfigError("linux.cgroupsPath", f'"{linux["cgroupsPath"]}" must not contain ".."')
    if linux.get("resources"):
        validate_resources(linux["resources"])
    if linux.get("sysctl"):
        from ociruntime.runtime.spec.sysctl import validate_sysctl

        validate_sysctl(linux["sysctl"], namespaces)
    if "seccomp" in linux:
        validate_seccomp(linux["seccomp"])
    if "intelRdt" in linux:
        _intel_rdt(linux["intelRdt"], warnings)
    if "memoryPolicy" in linux:
        _memory_policy(linux["memoryPolicy"])


def _device(device: Device, where: str) -> None:
    kind = device["type"]
    if kind == "p":
        return
    for number in ("major", "minor"):
        if number not in device:  # LNX-DEV-04
            raise ConfigError(
                f"{where}.{number}",
                "is missing",
                f'a device of type "{kind}" needs major and minor',
            )
    # config-linux.md, Default Devices: a container always has these devices, so no other device can
    # have their paths.
    fixed = DEFAULT_DEVICES.get(device["path"])
    numbers = (device["major"], device["minor"])
    if fixed and (kind == "b" or numbers != fixed):
        message = f'default device "{device["path"]}" cannot be {kind} {numbers[0]}:{numbers[1]}'
        raise ConfigError(where, message, f"must be c {fixed[0]}:{fixed[1]}")


def _intel_rdt(rdt: IntelRdt, warnings: list[str]) -> None:
    """Check ``linux.intelRdt``, and append to ``warnings``.

    Raises ConfigError if a member is invalid.
    """
    group = rdt.get("closID", "")
    if group != "/" and ("/" in group or "\n" in group or group in _RESERVED_GROUPS):
        hint = 'use the name of a directory in /sys/fs/resctrl, or "/"'
        raise ConfigError("linux.intelRdt.closID", f'"{group}" is not a resctrl group name', hint)
    cache = rdt.get("l3CacheSchema", "")
    if cache and (not cache.startswith("L3:") or "\n" in cache):
        warnings.append('linux.intelRdt.l3CacheSchema: should be one line that begins with "L3:"')
    bandwidth = rdt.get("memBwSchema", "")
    if bandwidth and not bandwidth.startswith("MB:"):
        raise ConfigError("linux.intelRdt.memBwSchema", 'must begin with "MB:"')
    if "\n" in bandwidth:
        raise ConfigError("linux.intelRdt.memBwSchema", "must be one line")
    for index, line in enumerate(rdt.get("schemata", [])):
        if "\n" in line:
            raise ConfigError(f"linux.intelRdt.schemata[{index}]", "must be one line")


def _memory_policy(policy: MemoryPolicy) -> None:
    """Raise ConfigError if ``linux.memoryPolicy`` breaks a rule of set_mempolicy(2)."""
    from ociruntime.runtime.spec.cpu_list import check_list

    mode, nodes, flags = policy["mode"], policy.get("nodes", ""), policy.get("flags", [])
    check_list("linux.memoryPolicy.nodes", nodes)
    if nodes.strip() and mode in _WITHOUT_NODES:
        raise ConfigError("linux.memoryPolicy.nodes", f"the mode {mode} takes no nodes")
    if not nodes.strip() and mode in _WITH_NODES:
        raise ConfigError("linux.memoryPolicy.nodes", f"the mode {mode} needs nodes")
    if "MPOL_F_STATIC_NODES" in flags and "MPOL_F_RELATIVE_NODES" in flags:
        message = "MPOL_F_STATIC_NODES and MPOL_F_RELATIVE_NODES cannot be combined"
        raise ConfigError("linux.memoryPolicy.flags", message)
    if "MPOL_F_NUMA_BALANCING" in flags and mode not in _BALANCED:
        message = f"MPOL_F_NUMA_BALANCING requires mode {' or '.join(_BALANCED)}, got {mode}"
        raise ConfigError("linux.memoryPolicy.flags", message)
    node_flags = [flag for flag in flags if flag in _FLAGS_OF_NODES]
    if node_flags and not nodes.strip():
        message = f"{node_flags[0]} requires nodes"
        raise ConfigError("linux.memoryPolicy.flags", message)


# Seccomp action that takes errnoRet -> largest value that the kernel passes on.
_NUMBERED = {"SCMP_ACT_ERRNO": 4095, "SCMP_ACT_TRACE": 65535}


def validate_seccomp(seccomp: Seccomp) -> None:
    """Raise ConfigError if ``linux.seccomp`` breaks a rule of the specification."""
    where = "linux.seccomp"
    default = seccomp["defaultAction"]
    if "defaultErrnoRet" in seccomp:  # LNX-SECC-02
        _check_errno(f"{where}.defaultErrnoRet", default, seccomp["defaultErrnoRet"])
    notified = f"{where}.defaultAction" if default == "SCMP_ACT_NOTIFY" else ""
    for index, rule in enumerate(seccomp.get("syscalls", [])):
        action = rule["action"]
        if "errnoRet" in rule:  # LNX-SECC-08
            _check_errno(f"{where}.syscalls[{index}].errnoRet", action, rule["errnoRet"])
        if action == "SCMP_ACT_NOTIFY" and not notified:
            notified = f"{where}.syscalls[{index}].action"
    path = seccomp.get("listenerPath", "")
    if notified and not path:
        raise ConfigError(
            f"{where}.listenerPath",
            "is missing",
            f"{notified} is SCMP_ACT_NOTIFY, which needs the socket of an agent",
        )
    if notified and not path.startswith("/"):
        raise ConfigError(f"{where}.listenerPath", f'must be an absolute path, got "{path}"')
    if seccomp.get("listenerMetadata") and not path:  # LNX-SECN-08
        raise ConfigError(f"{where}.listenerMetadata", "requires listenerPath")


def _check_errno(where: str, action: str, number: int) -> None:
    largest = _NUMBERED.get(action)
    if largest is None:
        raise ConfigError(where, f"{action} takes no errno", f"only {' and '.join(_NUMBERED)} do")
    if number > largest:
        raise ConfigError(where, f"must be from 0 to {largest}, got {number}")


def validate_resources(resources: Resources, where: str = "linux.resources") -> None:
    """Raise ConfigError if a ``resources`` object breaks a rule; ``where`` is its JSON path."""
    for index, rule in enumerate(resources.get("devices", [])):
        _rule(rule, f"{where}.devices[{index}]")
    _memory(resources.get("memory", {}), f"{where}.memory")
    _cpu(resources.get("cpu", {}), f"{where}.cpu")
    _block_io(resources.get("blockIO", {}), f"{where}.blockIO")
    for index, limit in enumerate(resources.get("hugepageLimits", [])):
        size = limit["pageSize"]
        if not _is_page_size(size):
            message = f'"{size}" is not a page size'
            hint = 'write it like "64KB", "2MB" or "1GB"'
            raise ConfigError(f"{where}.hugepageLimits[{index}].pageSize", message, hint)
    for device, limits in resources.get("rdma", {}).items():
        if "hcaHandles" not in limits and "hcaObjects" not in limits:  # LNX-RDMA-01
            message = "needs hcaHandles or hcaObjects"
            raise ConfigError(f'{where}.rdma["{device}"]', message)
    for file in resources.get("unified", {}):
        if "/" in file or file in (".", ".."):  # LNX-UNI-04
            raise ConfigError(
                f'{where}.unified["{file}"]',
                "must be the name of a file in the cgroup, without a path",
            )


def _rule(rule: DeviceRule, where: str) -> None:
    access = rule.get("access", "rwm")
    if not access or set(access) - set("rwm"):  # LNX-DEVCG-04
        raise ConfigError(
            f"{where}.access", f'must consist of the letters r, w and m, got "{access}"'
        )


def _memory(memory: Memory, where: str) -> None:
    for name in ("limit", "reservation", "swap", "kernel", "kernelTCP"):
        size = memory.get(name)
        if isinstance(size, int) and size < -1:
            raise ConfigError(f"{where}.{name}", f"must be -1 (no limit) or more, got {size}")
    limit, swap = memory.get("limit", -1), memory.get("swap", -1)
    if 0 < swap < limit:
        message = f"{swap} is below the memory limit of {limit}"
        raise ConfigError(f"{where}.swap", message, "swap is the limit of memory and swap together")


def _cpu(cpu: Cpu, where: str) -> None:
    quota, burst = cpu.get("quota", -1), cpu.get("burst", 0)
    if 0 < quota < burst:  # LNX-CPU-02, -03
        raise ConfigError(f"{where}.burst", f"{burst} is above the quota {quota}")
    if "cpus" in cpu or "mems" in cpu:
        from ociruntime.runtime.spec.cpu_list import check_list

        check_list(f"{where}.cpus", cpu.get("cpus", ""))
        check_list(f"{where}.mems", cpu.get("mems", ""))


def _block_io(block: BlockIO, where: str) -> None:
    for index, device in enumerate(block.get("weightDevice", [])):
        if "weight" not in device and "leafWeight" not in device:  # LNX-BLKIO-03
            raise ConfigError(f"{where}.weightDevice[{index}]", "needs weight or leafWeight")


def _is_page_size(text: str) -> bool:
    number, unit = text[:-2], text[-2:]
    return number.isascii() and number.isdigit() and number[0] != "0" and unit in ("KB", "MB", "GB")


_MOST_MAPPINGS = 340  # UID_GID_MAP_MAX_EXTENTS
_NO_ID = 4294967295  # (uid_t) -1, which is not an id: every range must end below it
_LONGEST_DEVICE = 15  # IFNAMSIZ without the NUL


def namespace_paths(namespaces: list[Namespace]) -> dict[str, str]:
    """Return {type: path} for ``linux.namespaces``; the path of a new namespace is "".

    Raises ConfigError if a type is listed twice.
    """
    paths: dict[str, str] = {}
    for index, namespace in enumerate(namespaces):
        kind = namespace["type"]
        if kind in paths:
            first = list(paths).index(kind)
            message = f'"{kind}" is already listed at linux.namespaces[{first}]'
            raise ConfigError(f"linux.namespaces[{index}].type", message)
        paths[kind] = namespace.get("path", "")
    return paths


def validate_namespaces(linux: Linux, namespaces: dict[str, str]) -> None:
    """Check the id mappings, time offsets and network devices of ``linux``.

    ``namespaces``: {type: path} of ``linux.namespaces``.  Raises ConfigError for a broken rule,
    such as id mappings without a user namespace.
    """
    _user(linux, namespaces)
    if linux.get("timeOffsets"):
        _time(linux["timeOffsets"], namespaces)
    if linux.get("netDevices"):
        _network(linux["netDevices"], namespaces)


def _user(linux: Linux, namespaces: dict[str, str]) -> None:
    mappings = (
        ("linux.uidMappings", linux.get("uidMappings", [])),
        ("linux.gidMappings", linux.get("gidMappings", [])),
    )
    for where, extents in mappings:
        if extents and "user" not in namespaces:
            # Without a user namespace, the container's root would be the host's root.
            raise ConfigError(
                where, "needs a user namespace", 'add {"type": "user"} to linux.namespaces'
            )
        if not extents and namespaces.get("user") == "":
            raise ConfigError(where, "is missing", "a new user namespace needs a mapping")
        validate_mappings(extents, where)


def validate_mappings(extents: list[IdMapping], where: str) -> None:
    """Raise ConfigError if id mappings break a rule of user_namespaces(7).

    ``where`` is the JSON path of the mappings.
    """
    if len(extents) > _MOST_MAPPINGS:
        raise ConfigError(
            where, f"has {len(extents)} entries; the kernel's limit is {_MOST_MAPPINGS}"
        )
    for index, extent in enumerate(extents):
        size = extent["size"]
        if size == 0:
            raise ConfigError(f"{where}[{index}].size", "must not be 0")
        inside, outside = extent["containerID"], extent["hostID"]
        for name, first in (("containerID", inside), ("hostID", outside)):
            if first + size > _NO_ID:
                message = f"{first} with size {size} exceeds the highest id, {_NO_ID - 1}"
                raise ConfigError(f"{where}[{index}].{name}", message)
        for position, earlier in enumerate(extents[:index]):
            reach = earlier["size"]
            for name, first, start in (
                ("containerID", inside, earlier["containerID"]),
                ("hostID", outside, earlier["hostID"]),
            ):
                if first < start + reach and start < first + size:
                    message = f"the range overlaps with that of {where}[{position}]"
                    raise ConfigError(f"{where}[{index}].{name}", message)


def _time(offsets: dict[str, TimeOffset], namespaces: dict[str, str]) -> None:
    """Raise ConfigError for a time offset without a value, or without a new time namespace.

    ``namespaces``: {type: path} of ``linux.namespaces``.
    """
    path = namespaces.get("time")
    if path is None:
        raise ConfigError(
            "linux.timeOffsets",
            "needs a time namespace",
            'add {"type": "time"} to linux.namespaces',
        )
    if path:
        message = f'needs a new time namespace, but "{path}" is joined'
        raise ConfigError("linux.timeOffsets", message)
    for clock, offset in offsets.items():
        if not offset:
            raise ConfigError(f"linux.timeOffsets.{clock}", "needs secs or nanosecs")


def _network(devices: dict[str, NetDevice], namespaces: dict[str, str]) -> None:
    """Check the names in ``netDevices``, but not whether the host has such devices.

    Raises ConfigError for an invalid name, or if ``namespaces`` has no network namespace.
    """
    if "network" not in namespaces:
        hint = 'add {"type": "network"} to linux.namespaces'
        raise ConfigError("linux.netDevices", "needs a network namespace", hint)
    owners: dict[str, str] = {}
    for device, settings in devices.items():
        where = f'linux.netDevices["{device}"]'
        if device == "lo":
            raise ConfigError(where, "the loopback device cannot be moved")
        if not _is_device_name(device) or "%" in device:
            raise ConfigError(where, "is not a valid network device name")
        name = settings.get("name", "") or device
        # The kernel replaces "%d" in a name by a number (LNX-NETDEV-05).
        if not _is_device_name(name) or "%" in name.replace("%d", "", 1):
            raise ConfigError(f"{where}.name", f'"{name}" is not a valid network device name')
        if name == "lo" or (name in owners and "%" not in name):
            owner = owners.get(name, "the loopback device")
            raise ConfigError(f"{where}.name", f'"{name}" is already taken by {owner}')
        owners[name] = where


def _is_device_name(name: str) -> bool:
    """Return whether the kernel accepts ``name`` for a network device (dev_valid_name())."""
    return (
        name not in (".", "..")
        and len(name.encode()) <= _LONGEST_DEVICE
        and not any(letter in "/:" or letter.isspace() for letter in name)
    )
