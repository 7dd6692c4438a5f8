"""Rules of linux.namespaces, and of settings that require a namespace of the container's own."""

from __future__ import annotations

from ociruntime.base.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.runtime.spec.document import IdMapping, Linux, Namespace, NetDevice, TimeOffset

_MOST_MAPPINGS = 340  # UID_GID_MAP_MAX_EXTENTS
_NO_ID = 4294967295  # (uid_t) -1: a range may reach up to it, not over it
_LONGEST_DEVICE = 15  # IFNAMSIZ without the NUL


def namespace_paths(namespaces: list[Namespace]) -> dict[str, str]:
    """Kind -> path of the namespace to join, "" for a new one.

    Raises ConfigError if a kind is given twice (LNX-NS-08).
    """
    paths: dict[str, str] = {}
    for index, namespace in enumerate(namespaces):
        kind = namespace["type"]
        if kind in paths:
            first = list(paths).index(kind)
            message = f'"{kind}" is already given at linux.namespaces[{first}]'
            raise ConfigError(f"linux.namespaces[{index}].type", message)
        paths[kind] = namespace.get("path", "")
    return paths


def validate_namespaces(linux: Linux, namespaces: dict[str, str]) -> None:
    """Mappings, time offsets and network devices against the namespaces; raises ConfigError."""
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
            # Going on would give the container the host's root.
            raise ConfigError(where, "needs a user namespace", 'add {"type": "user"}')
        if not extents and namespaces.get("user") == "":
            raise ConfigError(where, "is missing", "a new user namespace needs it")
        validate_mappings(extents, where)


def validate_mappings(extents: list[IdMapping], where: str) -> None:
    """Check the rules of user_namespaces(7) for the lines of a uid_map; raises ConfigError."""
    if len(extents) > _MOST_MAPPINGS:
        raise ConfigError(where, f"has {len(extents)} entries, the kernel takes {_MOST_MAPPINGS}")
    for index, extent in enumerate(extents):
        size = extent["size"]
        if size == 0:
            raise ConfigError(f"{where}[{index}].size", "must not be 0")
        inside, outside = extent["containerID"], extent["hostID"]
        for name, first in (("containerID", inside), ("hostID", outside)):
            if first + size > _NO_ID:
                message = f"{first} with size {size} goes beyond the last id, {_NO_ID - 1}"
                raise ConfigError(f"{where}[{index}].{name}", message)
        for other, earlier in enumerate(extents[:index]):
            reach = earlier["size"]
            for name, first, start in (
                ("containerID", inside, earlier["containerID"]),
                ("hostID", outside, earlier["hostID"]),
            ):
                if first < start + reach and start < first + size:
                    message = f"the range overlaps with that of {where}[{other}]"
                    raise ConfigError(f"{where}[{index}].{name}", message)


def _time(offsets: dict[str, TimeOffset], namespaces: dict[str, str]) -> None:
    """LNX-TIME-02: the kernel takes offsets only before anybody lives in the namespace."""
    path = namespaces.get("time")
    if path is None:
        raise ConfigError("linux.timeOffsets", "needs a time namespace", 'add {"type": "time"}')
    if path:
        message = f"needs a new time namespace, but {path} is to be joined"
        raise ConfigError("linux.timeOffsets", message)
    for clock, offset in offsets.items():
        if not offset:
            raise ConfigError(f"linux.timeOffsets.{clock}", "has neither secs nor nanosecs")


def _network(devices: dict[str, NetDevice], namespaces: dict[str, str]) -> None:
    """LNX-NETDEV-03 and -04, as far as they can be seen without the host."""
    if "network" not in namespaces:
        hint = 'add {"type": "network"}'
        raise ConfigError("linux.netDevices", "needs a network namespace", hint)
    owners: dict[str, str] = {}
    for device, settings in devices.items():
        where = f'linux.netDevices["{device}"]'
        if device == "lo":
            raise ConfigError(where, "the loopback device cannot be moved")
        if not _is_device_name(device) or "%" in device:
            raise ConfigError(where, "is not the name of a network device")
        name = settings.get("name", "") or device
        # One "%d" is the kernel's to fill in (LNX-NETDEV-05).
        if not _is_device_name(name) or "%" in name.replace("%d", "", 1):
            raise ConfigError(f"{where}.name", f'"{name}" is not the name of a network device')
        if name == "lo" or (name in owners and "%" not in name):
            owner = owners.get(name, "the loopback device")
            raise ConfigError(f"{where}.name", f'"{name}" is already taken by {owner}')
        owners[name] = where


def _is_device_name(name: str) -> bool:
    """dev_valid_name() of the kernel."""
    return (
        name not in (".", "..")
        and len(name.encode()) <= _LONGEST_DEVICE
        and not any(letter in "/:" or letter.isspace() for letter in name)
    )
