"""Plan a mount of type ``cgroup`` or ``cgroup2``, through which the container sees its cgroups.

A container with its own cgroup namespace gets a new cgroup filesystem, whose root is its cgroup.
Any other container gets a bind mount of the host's cgroup filesystem.  It gets no new mount of v2:
without a namespace of its own, such a mount would change the options of the host's mount
(``nsdelegate``).

On v1, only the container's own directory is bind-mounted.  On v2, the whole hierarchy is
bind-mounted, as with runc and crun.  An engine or systemd in a privileged container thus finds its
cgroup below the mount at the path in /proc/self/cgroup.  A container that must not write to other
cgroups gets only its own directory on v2 as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from ociruntime.base.errors import ConfigError
from ociruntime.base.linux import (
    CLONE_NEWCGROUP,
    MOUNT_ATTR_NODEV,
    MOUNT_ATTR_NOEXEC,
    MOUNT_ATTR_NOSUID,
    MOUNT_ATTR_RDONLY,
)
from ociruntime.runtime.plan import operation_constructors as operations
from ociruntime.runtime.plan.compiler_state import Compilation
from ociruntime.runtime.plan.mount_options import MountOptions, check_data, parse_mount_options
from ociruntime.runtime.plan.operation_table import NO_SLOT
from ociruntime.runtime.spec.config_types import Config, IdMapping, Linux, Mount

ALWAYS = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC


def compile_cgroup_mount(
    job: Compilation, fstype: str, target: str, options: MountOptions, where: str
) -> None:
    """Append the operations for a cgroup mount.

    On v1, they mount a tmpfs, and inside it a directory for each hierarchy.  Raises ConfigError for
    an unknown option, or for a v2 mount on a host without a v2 hierarchy.
    """
    job.enter_cgroup_namespace()
    job.require_cgroup()
    options.set = (options.set & ~options.clear_recursive) | options.set_recursive
    if job.facts.cgroup_mode == "v2" or fstype == "cgroup2":
        check_data("cgroup2", options.data, where)
        data = [text for _, text in options.data]
        _unified(job, target, options.set, data, options.propagation, where)
    else:
        _hierarchies(job, target, options, where)


def _own_namespace(job: Compilation) -> bool:
    return bool((job.new | job.joined) & CLONE_NEWCGROUP)


def _unified(
    job: Compilation,
    target: str,
    attributes: int,
    data: list[str],
    propagation: list[int],
    where: str,
) -> None:
    """Append the operation that mounts cgroup v2, or bind-mounts a directory of the host's.

    Raises ConfigError if the host has no cgroup v2 hierarchy.
    """
    if _own_namespace(job):
        job.add(
            operations.mount(
                fstype="cgroup2",
                source="cgroup",
                target=target,
                options=data,
                attributes=attributes,
                propagation=propagation[0] if propagation else 0,
                flags=0,
                id_map=NO_SLOT,
                label="",
                where=where,
            ),
        )
        return
    for name, directory in job.facts.hierarchies:
        if not name:
            shown = job.facts.unified if _may_see_all(job, attributes) else ""
            _bind_directory(job, shown or directory, target, attributes, where)
            return
    raise ConfigError(
        where, "this host has no cgroup v2 hierarchy to mount", 'use the mount type "cgroup"'
    )


def _may_see_all(job: Compilation, attributes: int) -> bool:
    """Return whether a container in the host's cgroup namespace may see the whole hierarchy.

    A container may see it through a read-only mount.  So may a container with CAP_SYS_ADMIN in its
    bounding set, which could mount the hierarchy itself.  Other containers must not be able to
    write to cgroups of the host.
    """
    if attributes & MOUNT_ATTR_RDONLY:
        return True
    process = job.config.get("process")
    capabilities = (process.get("capabilities") if process else None) or {}
    return "CAP_SYS_ADMIN" in (capabilities.get("bounding") or ())


def _hierarchies(job: Compilation, target: str, options: MountOptions, where: str) -> None:
    """Append the operations for a tmpfs that contains a mount for each hierarchy of the host.

    If a hierarchy has several controllers, such as ``cpu,cpuacct``, each of them also gets a
    symbolic link: ``cpu`` and ``cpuacct``.
    """
    for index, text in options.data:
        raise ConfigError(
            f"{where}.options[{index}]", f'unknown option "{text}" for a cgroup v1 mount'
        )
    job.add(
        operations.mount(
            fstype="tmpfs",
            source="tmpfs",
            target=target,
            options=["mode=755", *job.labels_of("tmpfs", ())[0]],
            attributes=(options.set | ALWAYS) & ~MOUNT_ATTR_RDONLY,
            propagation=options.propagation[0] if options.propagation else 0,
            flags=0,
            id_map=NO_SLOT,
            label="",
            where=where,
        ),
    )
    attributes = options.set | ALWAYS
    for name, directory in job.facts.hierarchies:
        # "name=systemd" names a v1 hierarchy without controllers.
        label = name.partition("=")[2] or name or "unified"
        if not _own_namespace(job):
            _bind_directory(job, directory, f"{target}/{label}", attributes, where)
        elif not name:
            _unified(job, f"{target}/unified", attributes, [], [], where)
        else:
            job.add(
                operations.mount(
                    fstype="cgroup",
                    source="cgroup",
                    target=f"{target}/{label}",
                    options=name.split(","),
                    attributes=attributes,
                    propagation=0,
                    flags=0,
                    id_map=NO_SLOT,
                    label="",
                    where=where,
                ),
            )
        if "," in name:
            for controller in name.split(","):
                job.add(
                    operations.symlink(
                        target=f"{target}/{controller}",
                        text=label,
                        requires="",
                        replace=0,
                        where=where,
                    ),
                )
    if options.set & MOUNT_ATTR_RDONLY:
        job.make_read_only(target, where)


def _bind_directory(
    job: Compilation, directory: str, target: str, attributes: int, where: str
) -> None:
    job.add(
        operations.bind(
            slot=NO_SLOT,
            source=directory,
            target=target,
            recursive=0,
            set_attributes=attributes,
            clear_attributes=0,
            set_recursive=0,
            clear_recursive=0,
            propagation=0,
            flags=0,
            id_map=NO_SLOT,
            id_map_recursive=0,
            where=where,
        ),
    )


NOBODY_ELSE = -1


def cgroup_owner(config: Config) -> int:
    """Return the host uid that must own the container's v2 cgroup; -1 leaves the owner unchanged.

    A container with a new cgroup namespace and a writable cgroup mount is meant to create nested
    cgroups, so its user owns its cgroup.
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
    """Return whether ``mount`` mounts a writable cgroup filesystem at /sys/fs/cgroup."""
    if mount["destination"].rstrip("/") != "/sys/fs/cgroup" or mount.get("source") != "cgroup":
        return False
    if mount.get("type") not in ("cgroup", "cgroup2"):
        return False
    options = parse_mount_options(mount.get("options") or (), "")
    return not (options.set | options.set_recursive) & MOUNT_ATTR_RDONLY


def _mapped(uid: int, mappings: Sequence[IdMapping]) -> int:
    """Return the host uid for ``uid`` in the container, or -1 if ``mappings`` do not map it."""
    for each in mappings:
        if 0 <= uid - each["containerID"] < each["size"]:
            return each["hostID"] + uid - each["containerID"]
    return NOBODY_ELSE
