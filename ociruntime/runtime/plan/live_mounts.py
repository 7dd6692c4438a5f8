"""Plans for `mounts add` and `mounts remove`, which change a running container's mounts.

The passes are those for ``mounts`` in config.json.  The executor opens the host's files before it
enters the container's mount namespace.  It never enters the pid namespace, so the container's
processes cannot see it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ociruntime.base.errors import ConfigError
from ociruntime.base.linux import CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER
from ociruntime.base.paths import clean, is_below
from ociruntime.runtime.plan import operation_constructors as operations
from ociruntime.runtime.plan.compiler_state import Compilation
from ociruntime.runtime.plan.facts import HostFacts, Request
from ociruntime.runtime.plan.mounts import (
    ALLOWED_IN_PROC,
    compile_mounts,
    compile_read_only_mounts,
    is_bind,
    is_id_mapped,
)
from ociruntime.runtime.plan.namespaces import open_trees
from ociruntime.runtime.plan.operation_table import MOUNT_PRESENT, NO_SLOT, SLOTS, STAGE_DONE
from ociruntime.runtime.plan.plan import Plan
from ociruntime.runtime.spec.config_types import Config, Mount

WHERE = "linux.namespaces"
REFUSED = {
    "proc": "only a process in the container's pid namespace can mount it",
    "cgroup": "cgroups are mounted when the container is created",
    "cgroup2": "cgroups are mounted when the container is created",
}


class RunningContainer:
    """A running container: the pid of its init, and the namespaces that are its own.

    ``apart``: the CLONE_NEW* flags of the namespaces that the container does not share with the
    runtime; CLONE_NEWNS is always one of them.
    """

    __slots__ = ("apart", "pid")

    def __init__(self, pid: int, apart: int) -> None:
        self.pid = pid
        self.apart = apart


def compile_adding(
    config: Config, facts: HostFacts, request: Request, container: RunningContainer
) -> Plan:
    """Return the plan that adds the ``mounts`` of ``config`` to a running container.

    Raises ConfigError for a mount that cannot be added to a running container.
    """
    job = Compilation(config, facts, request)
    job.joined = container.apart
    mounts = config.get("mounts") or []
    for index, mount in enumerate(mounts):
        _check(mount, f"mounts[{index}]")
    if any(is_id_mapped(mount) for mount in mounts):
        from ociruntime.runtime.plan.namespaces import compile_id_maps

        compile_id_maps(job, _user_namespace(job, container))
    open_trees(job)
    for index, mount in enumerate(mounts):
        if is_bind(mount) is not None and index not in job.trees:
            raise _not_opened(job, index)
    _enter(job, container)
    job.mount_flags = MOUNT_PRESENT
    compile_mounts(job)
    compile_read_only_mounts(job)
    job.add(operations.sync(stage=STAGE_DONE))
    return job.plan


def compile_removing(
    config: Config,
    facts: HostFacts,
    request: Request,
    container: RunningContainer,
    recorded: Collection[str],
) -> Plan:
    """Return the plan that unmounts the ``mounts`` of ``config``, the last one first.

    ``recorded``: the destinations that `mounts add` has recorded.  The executor follows symbolic
    links in these destinations, because the recorded mount ids identify the mounts.  Any other
    destination must itself be a mount point.  Raises ConfigError for the destinations /, /proc and
    files in /proc.
    """
    mounts = config.get("mounts") or []
    job = Compilation(config, facts, request)
    _enter(job, container)
    for index in reversed(range(len(mounts))):
        where = f"mounts[{index}]"
        target = clean(mounts[index]["destination"])
        _check_target(target, where)
        job.add(operations.unmount(target=target, follow=int(target in recorded), where=where))
    job.add(operations.sync(stage=STAGE_DONE))
    return job.plan


def compile_undoing(
    target: str, where: str, facts: HostFacts, request: Request, container: RunningContainer
) -> Plan:
    """Return the plan that unmounts what `mounts add` has mounted at ``target``.

    It undoes an addition that has just been made.  The executor follows symbolic links in
    ``target``.
    """
    config: Config = {"ociVersion": "", "root": {"path": ""}}  # not read
    job = Compilation(config, facts, request)
    _enter(job, container)
    job.add(operations.unmount(target=target, follow=1, where=where))
    job.add(operations.sync(stage=STAGE_DONE))
    return job.plan


def compile_uncovering(
    target: str,
    depth: int,
    kept: Sequence[tuple[str, str]],
    facts: HostFacts,
    request: Request,
    joins: bool,
) -> Plan:
    """Return the plan that unmounts a root filesystem at ``target`` on the host.

    ``depth``: the maximum number of mounts to unmount there, because other mounts may cover the
    root. ``kept``: mounts inside the root that must survive, as (path on the host, path below the
    root). ``joins``: the root is mounted in another process's mount namespace, which the executor
    enters first.
    """
    config: Config = {"ociVersion": "", "root": {"path": ""}}  # not read
    job = Compilation(config, facts, request)
    if joins:
        job.add(operations.join_process(flags=CLONE_NEWNS, root_of=0, where=WHERE))
    job.add(operations.shared_root(source="/"))
    for slot, (source, _) in enumerate(kept[:SLOTS]):
        job.add(
            operations.open_tree(
                slot=slot,
                source=source,
                follow=0,  # a renamed directory in the root must not redirect the executor
                recursive=1,
                id_map=NO_SLOT,
                id_map_recursive=0,
            )
        )
    for _ in range(depth):
        job.add(operations.unmount(target=target, follow=0, where="root.path"))
    if kept:
        job.add(operations.shared_root(source=request.rootfs))
    for slot, (_, preserved) in enumerate(kept[:SLOTS]):
        job.add(
            operations.bind(
                slot=slot,
                source="",
                target=preserved,
                recursive=1,
                set_attributes=0,
                clear_attributes=0,
                set_recursive=0,
                clear_recursive=0,
                propagation=0,
                flags=0,
                id_map=NO_SLOT,
                id_map_recursive=0,
            )
        )
    job.add(operations.sync(stage=STAGE_DONE))
    return job.plan


def compile_restricting(
    restrictions: Mapping[str, int], facts: HostFacts, request: Request
) -> Plan:
    """Return the plan that adds attributes, such as read-only, to existing mounts.

    ``restrictions``: {mount point: MOUNT_ATTR_* flags to set}.
    """
    config: Config = {"ociVersion": "", "root": {"path": ""}}  # not read
    job = Compilation(config, facts, request)
    job.add(operations.join_process(flags=CLONE_NEWNS, root_of=0, where=WHERE))
    for target, attributes in restrictions.items():
        job.add(operations.restrict(target=target, set_attributes=attributes, where="mounts"))
    job.add(operations.sync(stage=STAGE_DONE))
    return job.plan


def _enter(job: Compilation, container: RunningContainer) -> None:
    flags = container.apart & ~CLONE_NEWPID
    job.add(operations.join_process(flags=flags, root_of=0, where=WHERE))
    if flags & CLONE_NEWUSER:
        job.add(operations.become_root(where=WHERE))


def _user_namespace(job: Compilation, container: RunningContainer) -> int:
    """Append the operation that opens the container's user namespace; return its slot.

    If the container uses the host's user namespace, appends nothing and returns NO_SLOT.
    """
    if not container.apart & CLONE_NEWUSER:
        return NO_SLOT
    slot = job.take_slot()
    path = f"/proc/{container.pid}/ns/user"  # join_process verifies the pid later
    job.add(operations.open_namespace(slot=slot, source=path, where=WHERE))
    return slot


def _check_target(target: str, where: str) -> None:
    """Raise ConfigError for /, /proc and files in /proc, whose mounts confine the container.

    A few files that lxcfs replaces are allowed (``ALLOWED_IN_PROC``).
    """
    if target in ("/", "/proc"):
        raise ConfigError(
            f"{where}.destination", f'"{target}" must not be mounted over or unmounted'
        )
    if is_below(target, "/proc") and target not in ALLOWED_IN_PROC:
        raise ConfigError(
            f"{where}.destination", f'"{target}" is inside /proc, where mounts are not allowed'
        )


def _check(mount: Mount, where: str) -> None:
    _check_target(clean(mount["destination"]), where)
    if "remount" in (mount.get("options") or ()):
        raise ConfigError(
            where, "a running container's mount cannot be remounted", "remove it and add it again"
        )
    if "tmpcopyup" in (mount.get("options") or ()):
        # The copy, whose size the container decides, would be charged to the caller's cgroup.
        raise ConfigError(f"{where}.options", '"tmpcopyup" is not supported in a running container')
    fstype = mount.get("type") or ""
    if is_bind(mount) is None and fstype in REFUSED:
        raise ConfigError(
            f"{where}.type", f'"{fstype}" cannot be mounted in a running container', REFUSED[fstype]
        )


def _not_opened(job: Compilation, index: int) -> ConfigError:
    if job.facts.uid == 0 and job.facts.owns_mounts:
        return ConfigError(
            "mounts",
            f"more than {SLOTS} bind mounts and id maps cannot be added at once",
            "add the mounts in several calls",
        )
    return ConfigError(
        f"mounts[{index}]", "only root of the host can bind-mount into a running container"
    )
