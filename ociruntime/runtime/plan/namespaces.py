"""Plan the creation and joining of namespaces, in the required order.

The container's init starts in one of two ways.  If no namespace is joined, and neither a user nor a
time namespace is created, the executor is cloned straight into the new namespaces.  Otherwise the
executor starts on the host, joins or creates these namespaces, and then forks the init with
``clone_init``.  The fork is needed because the runtime must first write a user namespace's maps,
and because only a child enters a new time namespace.

A joined pid namespace is entered last, by ``clone_process``, when everything is set up and all
privileges are dropped (process.py): the processes in that namespace may be able to trace the new
process.
"""

from __future__ import annotations

from ociruntime.base.errors import ConfigError
from ociruntime.base.linux import (
    CLONE_NEWCGROUP,
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWTIME,
    CLONE_NEWUSER,
    CLONE_NEWUTS,
    NAMESPACES,
)
from ociruntime.runtime.plan import operation_constructors as operations
from ociruntime.runtime.plan.compiler_state import Compilation
from ociruntime.runtime.plan.mounts import bind_source, is_bind, is_id_mapped, maps_recursively
from ociruntime.runtime.plan.operation_table import NO_SLOT, SLOTS, STAGE_MAPS, STAGE_NETWORK
from ociruntime.runtime.plan.process import add_hard_limits, add_oom_score
from ociruntime.runtime.spec.config_types import IdMapping, Mount

# Namespaces created by the clone of the container's init.  The cgroup namespace is missing: its
# root is the creator's cgroup, so it is unshared after the process has entered its cgroup.
WITH_THE_PROCESS = CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS

# The order of joining for `create`; `exec` joins all namespaces by one setns(2) (exec_plan.py).
# After the mount namespace, the host's paths are gone.
JOIN_ORDER = (
    CLONE_NEWIPC,
    CLONE_NEWUTS,
    CLONE_NEWNET,
    CLONE_NEWCGROUP,
    CLONE_NEWTIME,
    CLONE_NEWPID,
    CLONE_NEWNS,
)


def compile_namespaces(job: Compilation) -> None:
    """Append the operations that create and join namespaces, up to the fork of the init."""
    joins: dict[int, tuple[str, str]] = {}
    for index, namespace in enumerate(job.linux.get("namespaces") or ()):
        kind = NAMESPACES[namespace["type"]]
        path = namespace.get("path") or ""
        if path:
            joins[kind] = (path, f"linux.namespaces[{index}]")
            job.joined |= kind
        else:
            job.new |= kind
    add_oom_score(job)
    slots = _open(job, joins)
    if any(is_id_mapped(mount) for mount in job.config.get("mounts") or ()):
        compile_id_maps(job, slots.get(CLONE_NEWUSER, NO_SLOT))
    if not joins and not job.new & (CLONE_NEWUSER | CLONE_NEWTIME):
        job.plan.clone_flags = job.new & WITH_THE_PROCESS
        return
    open_trees(job)
    if (job.new | job.joined) & CLONE_NEWUSER:
        add_hard_limits(job)
    if job.new & CLONE_NEWUSER or job.facts.uid == 0:
        order = (*JOIN_ORDER, CLONE_NEWUSER)
    else:
        # An unprivileged runtime needs the joined user namespace's privileges to enter the others.
        order = (CLONE_NEWUSER, *JOIN_ORDER)
    for kind in order:
        if kind in slots:
            job.add(
                operations.join_namespace(slot=slots[kind], kind=kind, where=joins[kind][1]),
            )
            if kind == CLONE_NEWUSER:
                job.add(operations.become_root(where=joins[kind][1]))
    if job.new & CLONE_NEWUSER:
        where = _where(job, "user")
        job.add(operations.unshare(flags=CLONE_NEWUSER, where=where))
        job.add(operations.sync(stage=STAGE_MAPS, where="linux.uidMappings"))
        job.add(operations.become_root(where=where))
    _add_time_namespace(job)
    flags = job.new & WITH_THE_PROCESS
    if not job.forks_last:
        job.add(operations.clone_init(flags=flags, where="linux.namespaces"))
    elif flags:
        job.add(operations.unshare(flags=flags, where="linux.namespaces"))


def _where(job: Compilation, kind: str) -> str:
    """Return the JSON path of the ``linux.namespaces`` entry with the type ``kind``."""
    for index, namespace in enumerate(job.linux["namespaces"]):
        if namespace["type"] == kind:
            return f"linux.namespaces[{index}]"
    return "linux.namespaces"


def _open(job: Compilation, joins: dict[int, tuple[str, str]]) -> dict[int, int]:
    """Append operations that open the namespaces to join; return {CLONE_NEW* flag: slot}.

    ``joins``: {CLONE_NEW* flag: (path, JSON path)}.
    """
    slots: dict[int, int] = {}
    for kind, (path, where) in joins.items():
        slots[kind] = job.take_slot()
        job.add(operations.open_namespace(slot=slots[kind], source=path, where=where))
    return slots


def open_trees(job: Compilation) -> None:
    """Append operations that open bind mount sources while the host's paths are accessible.

    The paths may be inaccessible later: root of the user namespace may lack permission to search
    the host's directories, and a joined mount namespace may not contain the directories.

    Appends nothing unless the runtime is root of the host.  No other user may copy mounts, and an
    ordinary user needs no copies, because they keep their permissions in the user namespace.
    """
    inaccessible_later = (job.new | job.joined) & CLONE_NEWUSER or job.joined & CLONE_NEWNS
    if not inaccessible_later or job.facts.uid != 0 or not job.facts.owns_mounts:
        return
    binds = [
        (index, mount)
        for index, mount in enumerate(job.config.get("mounts") or ())
        if is_bind(mount) is not None
    ]
    # Assign slots to id-mapped mounts first: without a slot, a bind mount is still possible.
    chosen = sorted(binds, key=lambda bind: bind[0] not in job.id_maps)[: SLOTS - job.next_slot]
    for index, mount in sorted(chosen, key=lambda bind: bind[0]):
        job.trees[index] = job.take_slot()
        job.add(
            operations.open_tree(
                slot=job.trees[index],
                source=bind_source(job, mount),
                follow=1,
                recursive=int(is_bind(mount) or False),
                id_map=job.id_maps.get(index, NO_SLOT),
                id_map_recursive=int(maps_recursively(mount)),
                where=f"mounts[{index}]",
            ),
        )


def _add_time_namespace(job: Compilation) -> None:
    if not job.new & CLONE_NEWTIME:
        return
    job.add(operations.unshare(flags=CLONE_NEWTIME, where=_where(job, "time")))
    offsets = job.linux.get("timeOffsets") or {}
    lines = [
        f"{clock} {offset.get('secs') or 0} {offset.get('nanosecs') or 0}\n"
        for clock, offset in offsets.items()
    ]
    if lines:
        job.add(
            operations.write_proc(
                path="self/timens_offsets",
                data="".join(lines),
                where="linux.timeOffsets",
            ),
        )


def compile_namespace_settings(job: Compilation) -> None:
    """Append operations for the host and domain name, loopback, network devices and sysctls.

    They must precede the operation that makes /proc/sys read-only.
    """
    if job.config.get("hostname"):
        job.add(operations.hostname(name=job.config["hostname"], where="hostname"))
    if job.config.get("domainname"):
        job.add(operations.domainname(name=job.config["domainname"], where="domainname"))
    if job.new & CLONE_NEWNET:
        job.add(operations.loopback(where="linux.namespaces"))
    if job.linux.get("netDevices"):
        # Move devices before the sysctls, some of which belong to a device, and before any hook.
        job.add(operations.sync(stage=STAGE_NETWORK, where="linux.netDevices"))
    if job.linux.get("sysctl"):
        _add_sysctls(job, job.linux["sysctl"])


def _add_sysctls(job: Compilation, sysctls: dict[str, str]) -> None:
    from ociruntime.runtime.spec.sysctl import sysctl_path

    for key, value in sysctls.items():
        job.add(
            operations.write_proc(
                path=f"sys/{sysctl_path(key)}",
                data=value,
                where=f'linux.sysctl["{key}"]',
            ),
        )


# The id maps of id-mapped mounts, created before any other operation.
# The kernel takes id maps in the form of a user namespace. The process that creates it must have
# privileges in the parent of the container's user namespace and where the source was mounted, and
# must not be visible to processes of a joined pid namespace: both are true only at the beginning of
# the plan.


def compile_id_maps(job: Compilation, joined: int) -> None:
    """Append operations that create the id maps of id-mapped mounts, and set ``job.id_maps``.

    Mounts with the same mappings share an id map.  ``joined``: slot of the joined user namespace,
    or NO_SLOT.  Raises ConfigError for a mount whose ids cannot be mapped.
    """
    slots: dict[tuple[str, str], int] = {}
    for index, mount in enumerate(job.config.get("mounts") or ()):
        if not is_id_mapped(mount):
            continue
        where = f"mounts[{index}]"
        _check(job, mount, where)
        if is_bind(mount) is None and (job.new | job.joined) & CLONE_NEWUSER:
            continue  # a new filesystem in a user namespace already uses the namespace's ids
        if mount.get("uidMappings"):
            maps = _lines(mount.get("uidMappings")), _lines(mount.get("gidMappings"))
        elif joined != NO_SLOT:
            job.id_maps[index] = joined
            continue
        else:
            maps = _lines(job.linux.get("uidMappings")), _lines(job.linux.get("gidMappings"))
        if maps not in slots:
            slots[maps] = job.take_slot()
            job.add(
                operations.id_map(slot=slots[maps], uid_map=maps[0], gid_map=maps[1], where=where)
            )
        job.id_maps[index] = slots[maps]
    if job.next_slot + len(job.id_maps) > SLOTS:
        raise ConfigError(
            "mounts", f"more than {SLOTS} id-mapped mounts and id maps are not supported"
        )


def _check(job: Compilation, mount: Mount, where: str) -> None:
    if "remount" in (mount.get("options") or ()):
        raise ConfigError(where, "a remount cannot be id-mapped")
    if mount.get("type") in ("cgroup", "cgroup2") and is_bind(mount) is None:
        raise ConfigError(where, "a cgroup mount cannot be id-mapped")
    if is_bind(mount) is not None:
        if job.facts.uid != 0:
            hint = "run as root; it needs CAP_SYS_ADMIN where the filesystem was mounted"
            raise ConfigError(where, "only root can make an id-mapped bind mount", hint)
    elif mount.get("uidMappings") and (job.new | job.joined) & CLONE_NEWUSER:
        raise ConfigError(
            f"{where}.uidMappings",
            "a new filesystem in a user namespace cannot be id-mapped: it has that namespace's ids",
            "remove uidMappings and gidMappings, or bind-mount a filesystem of the host",
        )


def _lines(mappings: list[IdMapping] | None) -> str:
    """Format id mappings as the lines of a uid_map or gid_map."""
    return "".join(
        f"{entry['containerID']} {entry['hostID']} {entry['size']}\n" for entry in mappings or ()
    )
