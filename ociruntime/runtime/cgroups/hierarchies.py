"""Detect the host's cgroup hierarchies and their mount points.

Sources: proc_pid_mountinfo(5), cgroups(7).  There are three modes: ``v1`` (one hierarchy per
controller or group of controllers), ``v2`` (one unified hierarchy) and ``hybrid`` (v1 hierarchies
and a cgroup2 mount for the remaining controllers).  The parsers take text, so that tests can
simulate any host.
"""

from __future__ import annotations

import errno
from typing import Any, Self

from ociruntime.base.errors import ConfigError, HostError
from ociruntime.base.files import read_file
from ociruntime.base.mountinfo import parse_mountinfo, reachable

_USUAL_PLACE = "/sys/fs/cgroup"
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM)


class Hierarchy:
    """A mounted cgroup hierarchy.

    ``controllers`` are kernel names (``memory``, ``cpu``, ``cpuacct``); ``name`` is the name
    of a named v1 hierarchy (``systemd``), else "".  ``mountpoint`` is absolute; ``version`` is 1
    or 2.
    """

    __slots__ = ("controllers", "mountpoint", "name", "version")

    def __init__(
        self,
        controllers: tuple[str, ...],
        name: str,
        mountpoint: str,
        version: int,
    ) -> None:
        self.controllers = controllers
        self.name = name
        self.mountpoint = mountpoint
        self.version = version

    @property
    def option(self) -> str:
        """The v1 mount option that names the hierarchy (``cpu,cpuacct``); "" for v2."""
        if self.version == 2:
            return ""
        return f"name={self.name}" if self.name else ",".join(self.controllers)

    def record(self) -> dict[str, Any]:
        """Return the hierarchy as a JSON object, for :meth:`from_record`."""
        return {
            "version": self.version,
            "controllers": list(self.controllers),
            "name": self.name,
            "mountpoint": self.mountpoint,
        }

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Self:
        """Recreate the hierarchy from the JSON object that :meth:`record` has returned."""
        return cls(
            tuple(record["controllers"]),
            record["name"],
            record["mountpoint"],
            record["version"],
        )


class Layout:
    """The host's cgroup hierarchies, with the v2 hierarchy last.

    ``mode`` is ``v1``, ``v2`` or ``hybrid``.
    """

    __slots__ = ("hierarchies", "mode")

    def __init__(self, mode: str, hierarchies: tuple[Hierarchy, ...]) -> None:
        self.mode = mode
        self.hierarchies = hierarchies


class CgroupMount:
    """A mount of type cgroup (``version`` 1) or cgroup2 (``version`` 2) in /proc/PID/mountinfo."""

    __slots__ = ("mountpoint", "options", "version")

    def __init__(self, mountpoint: str, version: int, options: tuple[str, ...]) -> None:
        self.mountpoint = mountpoint
        self.version = version
        self.options = options


def detect() -> Layout:
    """Return the layout of the cgroup hierarchies mounted in this process's mount namespace.

    Without a cgroup mount, returns an empty layout of mode ``v1``.  A file that is missing, or that
    this user may not read, counts as empty.  Raises HostError if /proc or cgroup.controllers cannot
    be read for another reason.
    """
    mounts = cgroup_mounts(_read("/proc/self/mountinfo"))
    existing = parse_existing(_read("/proc/self/cgroup"))
    unified = _choose([mount for mount in mounts if mount.version == 2])
    controllers: tuple[str, ...] = ()
    if unified is not None:
        controllers = tuple(_read(unified.mountpoint + "/cgroup.controllers").split())
    return assemble(mounts, existing, controllers)


def cgroup_mounts(text: str) -> list[CgroupMount]:
    """Return the visible cgroup mounts in the text of a mountinfo file.

    A mount that a later mount covers is left out.
    """
    return [
        CgroupMount(
            mount.target,
            2 if mount.fstype == "cgroup2" else 1,
            tuple(mount.super_options.split(",")),
        )
        for mount in reachable(parse_mountinfo(text), "cgroup", "cgroup2")
    ]


def parse_existing(text: str) -> list[tuple[str, ...]]:
    """Return the v1 hierarchies in the text of /proc/PID/cgroup, sorted by hierarchy number.

    Each hierarchy is a tuple of names: ``("cpu", "cpuacct")`` or ``("name=systemd",)``.
    """
    lines = []
    # Not splitlines(): a user may put its other separators (form feed, U+2028) into the name of a
    # cgroup, and so forge further lines.
    for line in text.split("\n"):
        number, _, names_and_path = line.partition(":")
        names, separator, _ = names_and_path.partition(":")
        if names and separator and number.isascii() and number.isdigit():
            lines.append((int(number), tuple(name for name in names.split(",") if name)))
    lines.sort()
    return [names for _, names in lines]


def assemble(
    mounts: list[CgroupMount],
    existing: list[tuple[str, ...]],
    unified_controllers: tuple[str, ...],
) -> Layout:
    """Return the host's layout: the mounted v1 hierarchies, then the unified hierarchy.

    ``existing`` are the v1 hierarchies from /proc/PID/cgroup.  Some kernels also list controllers
    there that belong to the unified hierarchy, so an entry without a v1 mount is skipped.
    ``unified_controllers`` are the controllers of the unified hierarchy.
    """
    hierarchies = []
    for names in existing:
        mount = _choose(
            [m for m in mounts if m.version == 1 and all(name in m.options for name in names)]
        )
        if mount is None:
            continue
        label = names[0].removeprefix("name=") if names[0].startswith("name=") else ""
        controllers = tuple(name for name in names if not name.startswith("name="))
        hierarchies.append(Hierarchy(controllers, label, mount.mountpoint, 1))
    unified = _choose([mount for mount in mounts if mount.version == 2])
    if unified is None:
        return Layout("v1", tuple(hierarchies))
    mode = "hybrid" if hierarchies else "v2"
    hierarchies.append(Hierarchy(unified_controllers, "", unified.mountpoint, 2))
    return Layout(mode, tuple(hierarchies))


def _choose(mounts: list[CgroupMount]) -> CgroupMount | None:
    """Return the first mount at or below /sys/fs/cgroup, else the first of all, else None.

    A cgroup mount elsewhere may belong to a container's root filesystem.
    """
    for mount in mounts:
        if mount.mountpoint == _USUAL_PLACE or mount.mountpoint.startswith(_USUAL_PLACE + "/"):
            return mount
    return mounts[0] if mounts else None


def _read(path: str) -> str:
    """Return a file's text; "" if it is missing or this user may not read it.

    Raises HostError if it cannot be read for another reason.
    """
    try:
        return read_file(path).decode("utf-8", "surrogateescape")
    except OSError as error:
        if error.errno in _ABSENT:
            return ""
        raise HostError(f'read "{path}"', error) from None


# Resolution of ``linux.cgroupsPath`` to a path below the mount point of every hierarchy.
#
# The spec's rules (config-linux.md, cgroups path): an absolute path starts at the mount point;
# the runtime chooses where a relative path starts, but must always choose the same directory.
# Here both kinds start at the mount point, and the default is ``/ID``.  The path never depends on
# the caller's cgroup, because ``create`` and ``delete`` may run in different cgroups.

CGROUPS_PATH = "linux.cgroupsPath"
_LONGEST_NAME = 255


def resolve_path(cgroups_path: str | None, container_id: str) -> str:
    """Return the container's cgroup path, such as ``/a/b``, which is the same in every hierarchy.

    The path is normalized.  Raises ConfigError if ``cgroups_path`` is invalid, or is the root
    cgroup.
    """
    if not cgroups_path:
        return "/" + container_id
    if "\0" in cgroups_path or "\n" in cgroups_path:
        raise ConfigError(CGROUPS_PATH, f"{cgroups_path!r} must not contain NUL or a newline")
    parts = [part for part in cgroups_path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ConfigError(CGROUPS_PATH, f'"{cgroups_path}" must not contain ".."')
    if not parts:
        raise ConfigError(
            CGROUPS_PATH,
            f'"{cgroups_path}" is the root cgroup, which a container cannot use',
            'name a cgroup below it, such as "/web"',
        )
    for part in parts:
        if len(part.encode("utf-8", "surrogateescape")) > _LONGEST_NAME:
            raise ConfigError(
                CGROUPS_PATH, f'the cgroup name "{part}" is longer than {_LONGEST_NAME} bytes'
            )
    return "/" + "/".join(parts)


def is_systemd_form(cgroups_path: str) -> bool:
    """Return whether cgroupsPath has the form ``slice:prefix:name`` of the systemd driver."""
    return not cgroups_path.startswith("/") and cgroups_path.count(":") == 2


def components(path: str) -> list[str]:
    """Return the ancestors of a cgroup path, then the path: ``["/a", "/a/b"]`` for ``/a/b``."""
    parts = path.strip("/").split("/")
    return ["/" + "/".join(parts[: depth + 1]) for depth in range(len(parts))]
