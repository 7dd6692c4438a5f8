"""Handle mounts from the host: name them at a checkpoint, and find them again at a restore.

A checkpoint stores a key for each such mount, with the mount's name in config.json.  A restore
looks the name up in the new container's config.json, which alone decides where host files come
from.  The keys are numbers, not paths: CRIU must not parse a name that an image or a process in the
container has chosen.

A process in the container can swap the directories above two mounts.  Therefore inode numbers are
compared too: they show whether a mount is the one in config.json.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence, Set

from ociruntime.base.errors import ContainerError, StepError
from ociruntime.base.linux import DEFAULT_DEVICES
from ociruntime.base.mountinfo import Mount
from ociruntime.base.paths import clean, is_below
from ociruntime.runtime.host.mount_namespaces import mount_id
from ociruntime.runtime.plan.mount_options import parse_mount_options
from ociruntime.runtime.plan.mounts import bind_path, is_bind
from ociruntime.runtime.spec.config_types import Config

Identity = tuple[int, int]  # st_dev, st_ino


# CRIU mounts these filesystem types itself: their content depends only on namespaces.
OF_THE_KERNEL = ("proc", "sysfs", "mqueue", "cgroup2")
NULL = "/dev/null"


def from_host(mounts: list[Mount], host_devices: set[str], cgroup_namespace: bool) -> list[str]:
    """Return the targets of the mounts that come from the host, so that CRIU cannot recreate them.

    A mount is from the host if its device is in ``host_devices``, the devices that are mounted on
    the host.  Exceptions are bind mounts from the container's own root and, if the container has a
    ``cgroup_namespace`` of its own, cgroup v2 mounts.
    """
    top = next((mount for mount in mounts if mount.target == "/"), None)
    own = {mount.device for mount in mounts if mount.fstype in OF_THE_KERNEL and mount.root == "/"}
    targets = []
    for mount in mounts:
        if mount is top or mount.device not in host_devices or mount.device in own:
            continue
        if mount.fstype == "cgroup2" and cgroup_namespace:
            continue
        if top is not None and mount.device == top.device and is_below(mount.root, top.root):
            continue
        if mount.target not in targets:
            targets.append(mount.target)
    return targets


def name_mounts(targets: list[str], pid: int, bundle: str, config: Config) -> dict[str, str]:
    """Return {target: name in config.json} for the mounts at ``targets`` in process ``pid``.

    A name is a destination in ``mounts``, a path in a cgroup mount, a masked path or a device path.
    Raises ContainerError for a mount that is not in config.json, or whose target is a path that
    CRIU does not support.
    """
    binds = bind_sources(bundle, config)
    others = masked_paths(config) | device_paths(config)
    cgroups = [
        clean(mount["destination"])
        for mount in config.get("mounts") or []
        if mount.get("type") in ("cgroup", "cgroup2") and is_bind(mount) is None
    ]
    others |= {t for t in targets if any(t == each or is_below(t, each) for each in cgroups)}
    names = {}
    for target in targets:
        if "]" in target or not target.isprintable():
            raise ContainerError(
                f"checkpoint the mount at {target!a}: CRIU does not support such a path"
            )
        inside = find_mount(pid, target)
        same = [where for where, source in binds if inside and identity(source) == inside[1]]
        if target in same or target in others:
            names[target] = target
        elif same:
            names[target] = same[0]  # the destination contains a symbolic link
        else:
            raise ContainerError(
                f'checkpoint the mount at "{target}": no mount in config.json matches it',
                "it was mounted later, or its source on the host has been replaced since",
            )
    return names


def bind_sources(bundle: str, config: Config) -> list[tuple[str, str]]:
    """Return (destination, absolute source) for each bind mount in ``config``."""
    return [
        (clean(mount["destination"]), bind_path(bundle, mount.get("source") or ""))
        for mount in config.get("mounts") or []
        if is_bind(mount) is not None
    ]


def masked_paths(config: Config) -> set[str]:
    """Return the paths in linux.maskedPaths, absolute and normalized."""
    return {clean(path) for path in (config.get("linux") or {}).get("maskedPaths") or []}


def device_paths(config: Config) -> set[str]:
    """Return the paths of the container's device nodes, including the default devices."""
    devices = (config.get("linux") or {}).get("devices") or []
    return {*DEFAULT_DEVICES, *(clean(device["path"]) for device in devices)}


def find_source(
    name: str, bundle: str, config: Config, cgroups: tuple[tuple[str, str], ...]
) -> str:
    """Return the host path to mount for ``name``, the name of a mount in the checkpoint.

    The new ``config`` decides the path.  ``cgroups``: the container's cgroup directories, which a
    mount of type cgroup shows (``Cgroup.visible``).  Raises ContainerError if the config has no
    mount or device with this name.
    """
    for mount in reversed(config.get("mounts") or []):
        destination = clean(mount["destination"])
        if is_bind(mount) is not None:
            if destination == name:
                return bind_path(bundle, mount.get("source") or "")
        elif mount.get("type") in ("cgroup", "cgroup2"):
            for hierarchy, directory in cgroups:
                label = hierarchy.partition("=")[2] or hierarchy or "unified"
                if name == f"{destination}/{label}" or (name == destination and not hierarchy):
                    return directory
    if name in masked_paths(config):
        return NULL
    if name in device_paths(config):
        return name
    raise ContainerError(
        f"restore the mount at {name!a}: it is in the checkpoint, but not in config.json",
        "restore with the mounts that the container had when it was checkpointed",
    )


def find_mount(pid: int, target: str) -> tuple[int, Identity] | None:
    """Return (mount id, file identity) of the file at ``target`` in the root of process ``pid``.

    Returns None if ``target`` does not exist or contains a symbolic link.  A link is not followed,
    because it could lead out of the process's root.  The paths in mountinfo contain no links,
    unless a process has created one since.
    """
    try:
        fd = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_CLOEXEC)
        try:
            for name in target.strip("/").split("/") if target != "/" else ():
                inner = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
                os.close(fd)
                fd = inner
            status = os.fstat(fd)
            return mount_id(fd).number, (status.st_dev, status.st_ino)
        finally:
            os.close(fd)
    except OSError:
        return None


def identity(path: str) -> Identity | None:
    """Return (device, inode) of the file at ``path``, or None if it is not accessible."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


# Find the mount flags, such as nosuid, that the mounts of a restored container lack.
#
# A restored mount must have both the flags recorded at the checkpoint and those of config.json, so
# that neither a bug of CRIU nor untrusted images make it writable.  The record may only add flags,
# and say which bind mount of config.json a mount is; the kernel must confirm that both have the
# same source.

# Mount options in mountinfo -> MOUNT_ATTR_*.
RESTRICTIONS = {"ro": 1, "nosuid": 2, "nodev": 4, "noexec": 8}
ALL_RESTRICTIONS = 15


def shown_at(pid: int, mounts: Sequence[Mount]) -> dict[str, Identity | None]:
    """Return {target: identity of the file there} for the ``mounts`` of process ``pid``.

    The identity is None if the target does not exist.  Raises StepError if a target's path leads to
    a different mount although no later mount covers the target.
    """
    shown: dict[str, Identity | None] = {}
    for index, mount in enumerate(mounts):
        found = find_mount(pid, mount.target)
        shown[mount.target] = found[1] if found else None
        covered = any(is_below(mount.target, later.target) for later in mounts[index + 1 :])
        if found and not covered:
            check_restricted(mount.target, found[0], mounts)
    return shown


def wanted_flags(
    recorded: Iterable[Sequence[str]],
    config: Config,
    shown: Mapping[str, Identity | None],
    sources: Mapping[str, Identity | None],
    nodes: Set[Identity],
) -> dict[str, int]:
    """Return {target: MOUNT_ATTR_* flags} that the restored mounts must have.

    ``recorded``: the mounts of an ImageRecord, each (name, target, options).  ``shown``: {target:
    identity of the file there}.  ``sources``: {destination of a bind mount in config.json: identity
    of its source}.

    ``nodes``: identities of the host's device nodes.  CRIU mounts such nodes over masked paths and
    devices.  A mount of a node must be read-only, unless config.json bind-mounts the same node.
    """
    configured = {}
    for index, mount in enumerate(config.get("mounts") or []):
        if is_bind(mount) is not None:
            options = parse_mount_options(mount.get("options") or (), f"mounts[{index}]")
            flags = (options.set | options.set_recursive) & ALL_RESTRICTIONS
            configured[clean(mount["destination"])] = flags
    names: dict[str, str] = {}
    wanted: dict[str, int] = {}
    for name, target, mount_options in recorded:
        names[target] = name
        wanted[target] = _flags(mount_options, RESTRICTIONS) | configured.get(name, 0)
    for target, file in shown.items():
        if file is None or target == "/":  # config.json does not list the root
            continue
        same = [where for where, source in sources.items() if source == file]
        if file in nodes and not same:
            wanted[target] = wanted.get(target, 0) | RESTRICTIONS["ro"]
        for destination in (target, names.get(target)):
            if destination in same:
                same = [destination]
        for where in same:
            wanted[target] = wanted.get(target, 0) | configured.get(where, 0)
    return wanted


def unmet(mounts: list[Mount], wanted: dict[str, int]) -> dict[str, int]:
    """Return {target: MOUNT_ATTR_* flags} that ``wanted`` requires but ``mounts`` do not have."""
    missing: dict[str, int] = {}
    for mount in mounts:
        lacks = wanted.get(mount.target, 0) & ~_flags(mount.options, RESTRICTIONS)
        if lacks:
            missing[mount.target] = missing.get(mount.target, 0) | lacks
    return missing


def check_restricted(target: str, number: int, mounts: Iterable[Mount]) -> None:
    """Raise StepError unless ``mounts`` contains the mount with the id ``number`` at ``target``.

    The path ``target`` leads to another mount if that mount covers the intended one, or if another
    container has replaced a directory on the path.
    """
    if all(mount.id != number for mount in mounts if mount.target == target):
        raise StepError(
            f'set the flags of the restored mount at "{target}": the path leads to another mount',
            "another mount covers it, or another container has replaced a directory on its path",
        )


def _flags(options: str, table: dict[str, int]) -> int:
    return sum(table.get(word, 0) for word in set(options.split(",")))
