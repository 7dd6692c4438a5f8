"""Choose a container's resctrl groups by ``linux.intelRdt`` (config-linux.md#intelrdt).

The functions are pure: ``runtime/lifecycle/intel_rdt_groups.py`` reads the existing groups and
creates the chosen ones.
"""

from __future__ import annotations

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.spec.config_types import IntelRdt

WHERE = "linux.intelRdt"
RESERVED = ("info", "mon_data", "mon_groups")  # directories of resctrl that are not groups
DECIMAL = (
    "MB",
    "SMBA",
)  # bandwidth resources: decimal values; other resources have hexadecimal bit masks


class Group:
    """A resctrl group, which need not exist yet."""

    __slots__ = ("exists", "monitoring", "path", "schemata")

    def __init__(
        self, path: str, *, exists: bool = False, schemata: str = "", monitoring: bool = False
    ) -> None:
        self.path = path  # directory
        self.exists = exists
        self.schemata = schemata  # content of the group's file schemata
        self.monitoring = monitoring  # true if the processor can monitor groups


class Placement:
    """The steps that put a container into its resctrl groups.

    ``made``: directories to create, in this order.  ``lines``: tuples (JSON path, file, line); the
    line is to be written to the file.  ``tasks``: files to write the pid to, in this order.
    ``own``: the directories in ``made`` that `delete` removes.
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
    """Return the directory of the container's resctrl group.

    The group's name is ``closID`` or, without closID, ``container_id``.  Raises ConfigError if the
    container id is needed as the name but is reserved by the kernel.
    """
    name = rdt.get("closID") or ""
    if name == "/":  # LNX-RDT-04
        return mountpoint
    if not name and container_id in RESERVED:
        message = f'the container id "{container_id}" cannot be the name of a resctrl group'
        raise ConfigError(WHERE, message, "reserved by the kernel; set closID")
    return f"{mountpoint}/{name or container_id}"  # LNX-RDT-14


def place(rdt: IntelRdt, container_id: str, group: Group) -> Placement:
    """Return the steps that put a container into ``group``.

    Raises ConfigError if

        - the group named by closID does not exist, and ``rdt`` has no schemata to create it with;
        - the group named by closID exists with schemata other than l3CacheSchema or memBwSchema;
        - closID is not set, and the group already exists;
        - ``rdt`` requests monitoring, which this host's resctrl does not support.
    """
    named = bool(rdt.get("closID"))
    schemata = lines(rdt)
    _check_group(group, named, bool(schemata))
    if named and group.exists:
        _compare(group, schemata)
    made = [] if group.exists else [group.path]
    own = [] if named else list(made)
    tasks = [f"{group.path}/tasks"]
    if rdt.get("enableMonitoring"):
        if not group.monitoring:
            raise ConfigError(
                f"{WHERE}.enableMonitoring",
                "resctrl has no mon_groups: the processor has no RDT monitoring, or the kernel "
                "parameter rdt= disables it",
            )
        monitor = f"{group.path}/mon_groups/{container_id}"  # LNX-RDT-20
        made.append(monitor)
        own.append(monitor)
        tasks.append(
            f"{monitor}/tasks"
        )  # after the group's own tasks file: the kernel requires this order
    file = f"{group.path}/schemata"
    return Placement(made, [(where, file, line) for where, line in schemata], tasks, own)


def lines(rdt: IntelRdt) -> list[tuple[str, str]]:
    """Return the schemata of ``rdt`` as pairs (JSON path, line), in the order to write them."""
    bandwidth = rdt.get("memBwSchema") or ""
    result = []
    for line in (rdt.get("l3CacheSchema") or "").splitlines():
        # Old configs also set MB here; memBwSchema overrides that.
        if line.strip() and not (bandwidth and _resource(line) == "MB"):
            result.append((f"{WHERE}.l3CacheSchema", line))
    if bandwidth:
        result.append((f"{WHERE}.memBwSchema", bandwidth))
    for index, line in enumerate(rdt.get("schemata") or ()):
        result.append((f"{WHERE}.schemata[{index}]", line))
    return result


def _check_group(group: Group, named: bool, with_schema: bool) -> None:
    if named and not group.exists and not with_schema:  # LNX-RDT-17
        message = f'resctrl group "{group.path}" does not exist'
        raise ConfigError(f"{WHERE}.closID", message, "create it, or set l3CacheSchema for it")
    if not named and group.exists:
        message = f'resctrl group "{group.path}" already exists'
        raise ConfigError(WHERE, message, "set closID to use an existing group")


def _compare(group: Group, lines: list[tuple[str, str]]) -> None:
    """Raise ConfigError if l3CacheSchema or memBwSchema differs from the group's schemata.

    ``lines``: pairs (JSON path, line) of the wanted schemata.
    """
    present = {_resource(line): _values(line) for line in group.schemata.splitlines()}
    for where, line in lines:
        if where.startswith(f"{WHERE}.schemata"):
            continue
        existing = present.get(_resource(line), {})
        for domain, value in _values(line).items():
            if existing.get(domain) != value:
                message = f'"{line}" differs from the existing "{group.path}/schemata"'
                raise ConfigError(
                    where, message, "remove this schema from config.json, or choose another closID"
                )


def _resource(line: str) -> str:
    return line.partition(":")[0].strip()


def _values(line: str) -> dict[str, int | str]:
    """Parse a schemata line: ``L3:0=0f`` becomes ``{"0": 15}``; malformed values stay strings."""
    base = 10 if _resource(line) in DECIMAL else 16
    values: dict[str, int | str] = {}
    for part in line.partition(":")[2].split(";"):
        domain, _, text = part.partition("=")
        try:
            values[domain.strip()] = int(text, base)
        except ValueError:
            values[domain.strip()] = text.strip()
    return values
