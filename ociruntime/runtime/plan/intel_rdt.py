"""``linux.intelRdt``: choose a container's resctrl groups (config-linux.md#intelrdt).

Pure: ``runtime/host/resctrl.py`` reads the existing groups, and applies the decision.
"""

from __future__ import annotations

from ociruntime.base.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.runtime.spec.config_types import IntelRdt

WHERE = "linux.intelRdt"
RESERVED = ("info", "mon_data", "mon_groups")  # directories of resctrl that are not groups
DECIMAL = ("MB", "SMBA")  # bandwidths; the others are bit masks, in hexadecimal


class Group:
    """An existing resctrl group."""

    __slots__ = ("exists", "monitoring", "path", "schemata")

    def __init__(
        self, path: str, *, exists: bool = False, schemata: str = "", monitoring: bool = False
    ) -> None:
        self.path = path
        self.exists = exists
        self.schemata = schemata  # content of that file
        self.monitoring = monitoring  # whether the processor can monitor groups


class Placement:
    """The steps to take: create directories, write lines, then add the process.

    ``made``: directories in order. ``lines``: (JSON path, file, line). ``tasks``: files to write
    the pid to, in order. ``own``: the members of ``made`` that are removed with the container.
    """

    __slots__ = ("lines", "made", "own", "tasks")

    def __init__(
        self, made: list[str], lines: list[tuple[str, str, str]], tasks: list[str], own: list[str]
    ) -> None:
        self.made = made
        self.lines = lines
        self.tasks = tasks
        self.own = own


def group_path(rdt: IntelRdt, container_id: str, mountpoint: str) -> str:
    """Return the group's directory.  Raises ConfigError for an id that cannot be its name."""
    name = rdt.get("closID") or ""
    if name == "/":  # LNX-RDT-04
        return mountpoint
    if not name and container_id in RESERVED:
        message = f'"{container_id}", the container\'s id, cannot be the name of a group'
        raise ConfigError(WHERE, message, "set closID")
    return f"{mountpoint}/{name or container_id}"  # LNX-RDT-14


def place(rdt: IntelRdt, container_id: str, group: Group) -> Placement:
    """Decide the steps.  Raises ConfigError if the host differs from what is configured."""
    named = bool(rdt.get("closID"))
    wanted = lines(rdt)
    _check_group(group, named, bool(wanted))
    if named and group.exists:
        _compare(group, wanted)
    made = [] if group.exists else [group.path]
    own = [] if named else list(made)
    tasks = [f"{group.path}/tasks"]
    if rdt.get("enableMonitoring"):
        if not group.monitoring:
            raise ConfigError(f"{WHERE}.enableMonitoring", "the processor has no monitoring")
        monitor = f"{group.path}/mon_groups/{container_id}"  # LNX-RDT-20
        made.append(monitor)
        own.append(monitor)
        tasks.append(f"{monitor}/tasks")  # in the group itself first, or the kernel refuses
    file = f"{group.path}/schemata"
    return Placement(made, [(where, file, line) for where, line in wanted], tasks, own)


def lines(rdt: IntelRdt) -> list[tuple[str, str]]:
    """Return (JSON path, line) in the order of writing (LNX-RDT-10 to -13)."""
    bandwidth = rdt.get("memBwSchema") or ""
    found = []
    for line in (rdt.get("l3CacheSchema") or "").splitlines():
        # Old configs put both here; if both members set it, this one is ignored.
        if line.strip() and not (bandwidth and _resource(line) == "MB"):
            found.append((f"{WHERE}.l3CacheSchema", line))
    if bandwidth:
        found.append((f"{WHERE}.memBwSchema", bandwidth))
    for index, line in enumerate(rdt.get("schemata") or ()):
        found.append((f"{WHERE}.schemata[{index}]", line))
    return found


def _check_group(group: Group, named: bool, with_schema: bool) -> None:
    if named and not group.exists and not with_schema:  # LNX-RDT-17
        message = f"there is no group {group.path}"
        raise ConfigError(f"{WHERE}.closID", message, "create it, or set a schema for it")
    if not named and group.exists:
        message = f"the group {group.path} exists and is not this container's"
        raise ConfigError(WHERE, message, "name it by closID to use it")


def _compare(group: Group, lines: list[tuple[str, str]]) -> None:
    """Require that an existing group has l3CacheSchema and memBwSchema already (LNX-RDT-16)."""
    present = {_resource(line): _values(line) for line in group.schemata.splitlines()}
    for where, line in lines:
        if where.startswith(f"{WHERE}.schemata"):
            continue
        there = present.get(_resource(line), {})
        for domain, value in _values(line).items():
            if there.get(domain) != value:
                message = f'"{line}" differs from {group.path}/schemata'
                raise ConfigError(where, message, "leave it out, or choose another closID")


def _resource(line: str) -> str:
    return line.partition(":")[0].strip()


def _values(line: str) -> dict[str, int | str]:
    """Map domains to values without the kernel's padding; malformed ones stay text."""
    base = 10 if _resource(line) in DECIMAL else 16
    values: dict[str, int | str] = {}
    for part in line.partition(":")[2].split(";"):
        domain, _, text = part.partition("=")
        try:
            values[domain.strip()] = int(text, base)
        except ValueError:
            values[domain.strip()] = text.strip()
    return values
