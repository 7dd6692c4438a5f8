"""Rules of the remaining linux object: devices, sysctl, memory policy and cache allocation."""

from __future__ import annotations

from ociruntime.base.errors import ConfigError
from ociruntime.base.linux import DEFAULT_DEVICES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.runtime.spec.document import Device, IntelRdt, Linux, MemoryPolicy

# config-linux.md, Default Devices: always supplied, so nothing else can stand in their place.
_RESERVED_GROUPS = (".", "..", "info", "mon_data", "mon_groups")  # in /sys/fs/resctrl
_WITHOUT_NODES = ("MPOL_DEFAULT", "MPOL_LOCAL")
_BALANCED = ("MPOL_BIND", "MPOL_PREFERRED_MANY")
_FLAGS_OF_NODES = ("MPOL_F_STATIC_NODES", "MPOL_F_RELATIVE_NODES")
_WITH_NODES = ("MPOL_BIND", "MPOL_INTERLEAVE", "MPOL_PREFERRED_MANY", "MPOL_WEIGHTED_INTERLEAVE")


def validate_linux(linux: Linux, namespaces: dict[str, str], warnings: list[str]) -> None:
    """Check the rules; appends warnings, raises ConfigError."""
    for index, device in enumerate(linux.get("devices", [])):
        _device(device, f"linux.devices[{index}]")
    if ".." in linux.get("cgroupsPath", "").split("/"):  # LNX-CGPATH-04
        raise ConfigError("linux.cgroupsPath", f'"{linux["cgroupsPath"]}" must not go up by ".."')
    if linux.get("resources"):
        from ociruntime.runtime.spec.validate_resources import validate_resources

        validate_resources(linux["resources"])
    if linux.get("sysctl"):
        from ociruntime.runtime.spec.sysctl import validate_sysctl

        validate_sysctl(linux["sysctl"], namespaces)
    if "seccomp" in linux:
        from ociruntime.runtime.spec.validate_seccomp import validate_seccomp

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
            raise ConfigError(f"{where}.{number}", "is missing", f'type "{kind}" needs it')
    fixed = DEFAULT_DEVICES.get(device["path"])
    numbers = (device["major"], device["minor"])
    if fixed and (kind == "b" or numbers != fixed):
        message = f"{device['path']} is {kind} {numbers[0]}:{numbers[1]}"
        raise ConfigError(where, message, f"it is always c {fixed[0]}:{fixed[1]}")


def _intel_rdt(rdt: IntelRdt, warnings: list[str]) -> None:
    """LNX-RDT-04 to -09, A-91."""
    group = rdt.get("closID", "")
    if group != "/" and ("/" in group or "\n" in group or group in _RESERVED_GROUPS):
        hint = 'one directory below /sys/fs/resctrl, or "/"'
        raise ConfigError("linux.intelRdt.closID", f'"{group}" is not a group', hint)
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
    """LNX-MPOL-03 and set_mempolicy(2)."""
    from ociruntime.runtime.spec.cpu_list import check_list

    mode, nodes, flags = policy["mode"], policy.get("nodes", ""), policy.get("flags", [])
    check_list("linux.memoryPolicy.nodes", nodes)
    if nodes.strip() and mode in _WITHOUT_NODES:
        raise ConfigError("linux.memoryPolicy.nodes", f"{mode} takes no nodes")
    if not nodes.strip() and mode in _WITH_NODES:
        raise ConfigError("linux.memoryPolicy.nodes", f"{mode} needs nodes")
    if "MPOL_F_STATIC_NODES" in flags and "MPOL_F_RELATIVE_NODES" in flags:
        message = "MPOL_F_STATIC_NODES and MPOL_F_RELATIVE_NODES exclude each other"
        raise ConfigError("linux.memoryPolicy.flags", message)
    if "MPOL_F_NUMA_BALANCING" in flags and mode not in _BALANCED:
        message = f"MPOL_F_NUMA_BALANCING goes with {' or '.join(_BALANCED)}, not with {mode}"
        raise ConfigError("linux.memoryPolicy.flags", message)
    about_nodes = [flag for flag in flags if flag in _FLAGS_OF_NODES]
    if about_nodes and not nodes.strip():
        message = f"{about_nodes[0]} says how nodes are meant, but there are none"
        raise ConfigError("linux.memoryPolicy.flags", message)
