"""Choose the owner of a container's cgroup on a v2 host (config-linux.md, cgroup ownership)."""

from __future__ import annotations

from ociruntime.base.linux import MOUNT_ATTR_RDONLY
from ociruntime.runtime.plan.mount_options import parse_mount_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ociruntime.runtime.spec.document import Config, IdMapping, Linux, Mount

NOBODY_ELSE = -1


def cgroup_owner(config: Config) -> int:
    """The host's uid of the container's user, or -1 where the cgroup stays its maker's.

    The container gets it if it has a cgroup namespace of its own and the file system of that
    mounted writable: it is then meant to make cgroups below.
    """
    linux = config.get("linux") or {}
    if not _is_new(linux, "cgroup") or not any(map(_is_writable, config.get("mounts") or ())):
        return NOBODY_ELSE
    process = config.get("process")
    uid = process["user"]["uid"] if process else 0
    if _is_new(linux, "user"):
        return _mapped(uid, linux.get("uidMappings") or ())
    joined = any(each["type"] == "user" for each in linux.get("namespaces") or ())
    return NOBODY_ELSE if joined else uid


def _is_new(linux: Linux, kind: str) -> bool:
    namespaces = linux.get("namespaces") or ()
    return any(each["type"] == kind and not each.get("path") for each in namespaces)


def _is_writable(mount: Mount) -> bool:
    """Return true for the container's own cgroup file system, writable at the usual path."""
    if mount["destination"].rstrip("/") != "/sys/fs/cgroup" or mount.get("source") != "cgroup":
        return False
    if mount.get("type") not in ("cgroup", "cgroup2"):
        return False
    options = parse_mount_options(mount.get("options") or (), "")
    return not (options.set | options.set_recursive) & MOUNT_ATTR_RDONLY


def _mapped(uid: int, mappings: Sequence[IdMapping]) -> int:
    for each in mappings:
        if 0 <= uid - each["containerID"] < each["size"]:
            return each["hostID"] + uid - each["containerID"]
    return NOBODY_ELSE
