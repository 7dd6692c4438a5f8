"""The id maps of a new user namespace (user_namespaces(7)).

Root writes them directly; root of a user namespace can do so for ids that are mapped there.  An
unprivileged user may map only the own id; ranges are written by newuidmap(1) and newgidmap(1), as
/etc/subuid and /etc/subgid allow.
"""

from __future__ import annotations

import errno
import posix

from ociruntime.base.errors import ConfigError, HostError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.runtime.spec.document import IdMapping


class Kind:
    """The parameters of the uid map or the gid map."""

    __slots__ = ("helper", "map", "name", "ranges", "where")

    def __init__(self, name: str) -> None:
        self.name = name
        self.map = f"{name}_map"
        self.helper = f"new{name}map"
        self.ranges = f"/etc/sub{name}"
        self.where = f"linux.{name}Mappings"


UID = Kind("uid")
GID = Kind("gid")


def write_maps(pid: int, uids: list[IdMapping], gids: list[IdMapping]) -> None:
    """Write both maps of the process that created the namespace.

    Raises HostError, and ConfigError for ids that this user may not map.
    """
    if posix.geteuid() == 0:
        _write_map(pid, GID, gids)
        _write_map(pid, UID, uids)
        return
    if is_own_id(gids, posix.getegid()):
        # Without privileges, setgroups(2) must be denied first (CVE-2014-8989).
        _write(pid, "setgroups", "deny")
        _write_map(pid, GID, gids)
    else:
        _ask_helper(pid, GID, gids)
    if is_own_id(uids, posix.geteuid()):
        _write_map(pid, UID, uids)
    else:
        _ask_helper(pid, UID, uids)


def is_own_id(mappings: list[IdMapping], own: int) -> bool:
    """Return whether only the caller's own id is mapped, which needs no privileges."""
    return len(mappings) == 1 and mappings[0]["size"] == 1 and mappings[0]["hostID"] == own


def _ask_helper(pid: int, kind: Kind, mappings: list[IdMapping]) -> None:
    from ociruntime.runtime.host.idmap_helpers import run_helper

    numbers = [str(entry[key]) for entry in mappings for key in ("containerID", "hostID", "size")]
    run_helper(kind, pid, numbers)


def _write_map(pid: int, kind: Kind, mappings: list[IdMapping]) -> None:
    text = "".join(
        f"{entry['containerID']} {entry['hostID']} {entry['size']}\n" for entry in mappings
    )
    try:
        _write(pid, kind.map, text)
    except HostError as error:
        if error.errno == errno.EPERM and (index := _unmapped(kind, mappings)) >= 0:
            entry = mappings[index]
            raise ConfigError(
                f"{kind.where}[{index}]",
                f"the ids {entry['hostID']} to {entry['hostID'] + entry['size'] - 1} are not all"
                f" mapped in the user namespace that ociruntime runs in: {error.message}",
                f"/proc/self/{kind.map} lists, in its first column, what can be given on as hostID",
            ) from None
        raise


def _unmapped(kind: Kind, mappings: list[IdMapping]) -> int:
    """Return the index of the first range not within one range of our own namespace, or -1."""
    try:
        with open(f"/proc/self/{kind.map}", encoding="ascii") as file:
            own = [[int(field) for field in line.split()] for line in file]
    except OSError:
        return -1
    for index, entry in enumerate(mappings):
        first, end = entry["hostID"], entry["hostID"] + entry["size"]
        if not any(start <= first and end <= start + size for start, _, size in own):
            return index
    return -1


def _write(pid: int, name: str, text: str) -> None:
    path = f"/proc/{pid}/{name}"
    try:
        fd = posix.open(path, posix.O_WRONLY | posix.O_CLOEXEC)
        try:
            # One write: the kernel takes a map whole or not at all.
            posix.write(fd, text.encode())
        finally:
            posix.close(fd)
    except OSError as error:
        raise HostError(f"write {name} of the user namespace", error) from None
