"""The state shared by the passes of the plan's compiler."""

from __future__ import annotations

from collections.abc import Sequence

from ociruntime.base.linux import CLONE_NEWCGROUP, CLONE_NEWNS, CLONE_NEWPID, MOUNT_ATTR_RDONLY
from ociruntime.runtime.plan import operation_constructors as operations
from ociruntime.runtime.plan.facts import HostFacts, Request
from ociruntime.runtime.plan.operation_table import STAGE_CGROUP
from ociruntime.runtime.plan.plan import Operation, Plan
from ociruntime.runtime.spec.config_types import Config, Linux

# An empty mask means all CPUs of the cpuset; it replaces the caller's affinity (taskset).
ALL_CPUS = b""


class Compilation:
    """The state of one compilation of a plan.

    The passes read ``config``, ``linux`` ({} if config.json has none), ``facts`` and ``request``,
    and append operations to ``plan``.  They share their results in the other attributes:

        new, joined      the CLONE_NEW* masks of the namespaces to create and to join
        id_maps          {index in ``mounts``: slot of the mount's id map}
        trees            {index in ``mounts``: slot of the bind mount's source, from open_tree(2)}
        read_only_later  [(target, index in ``mounts``)]: mounts to make read-only after all others
        mount_flags      MOUNT_* flags for every mount, for a plan that enters a running container
    """

    __slots__ = (
        "config",
        "facts",
        "id_maps",
        "in_cgroup",
        "in_new_cgroup_namespace",
        "joined",
        "linux",
        "mount_flags",
        "new",
        "next_slot",
        "plan",
        "read_only_later",
        "request",
        "trees",
    )

    def __init__(self, config: Config, facts: HostFacts, request: Request) -> None:
        self.config = config
        self.linux: Linux = config.get("linux") or {}
        self.facts = facts
        self.request = request
        self.plan = Plan(preserve_fds=request.listen_fds + request.preserve_fds)
        self.new = 0
        self.joined = 0
        self.next_slot = 0
        self.id_maps: dict[int, int] = {}
        self.trees: dict[int, int] = {}
        self.read_only_later: list[tuple[str, int]] = []
        self.mount_flags = 0
        self.in_cgroup = False
        self.in_new_cgroup_namespace = False

    @property
    def shares_mounts(self) -> bool:
        """True if the container shares the runtime's mount namespace."""
        return not (self.new | self.joined) & CLONE_NEWNS

    @property
    def mounts_on_host(self) -> bool:
        """True if the executor makes the container's mounts in the runtime's mount namespace."""
        if not self.shares_mounts:
            return False
        from ociruntime.runtime.spec.validate import needing_mounts

        return bool(needing_mounts(self.config))

    @property
    def forks_last(self) -> bool:
        """True if the container joins a pid namespace.

        The process enters that namespace last, when it has dropped its privileges.
        """
        return bool(self.joined & CLONE_NEWPID)

    def add(self, operation: Operation) -> None:
        """Append an operation to the plan."""
        self.plan.operations.append(operation)

    def warn(self, text: str) -> None:
        """Append a warning to the plan, unless the plan already has it."""
        if text not in self.plan.warnings:
            self.plan.warnings.append(text)

    def make_read_only(self, target: str, where: str) -> None:
        """Append an operation that makes the mount at ``target`` read-only.

        The submounts of this mount stay unchanged.
        """
        self.add(
            operations.set_attributes(
                target=target,
                set_attributes=MOUNT_ATTR_RDONLY,
                clear_attributes=0,
                recursive=0,
                propagation=0,
                where=where,
            ),
        )

    def labels_of(self, fstype: str, options: Sequence[str]) -> tuple[list[str], str]:
        """Return (mount options, label for the root directory) that apply ``linux.mountLabel``."""
        if not self.linux.get("mountLabel"):
            return [], ""

        return _mount_labels(self, fstype, options)

    def take_slot(self) -> int:
        """Return an unused slot, the number under which the executor keeps an open descriptor."""
        slot = self.next_slot
        self.next_slot += 1
        return slot

    def require_cgroup(self) -> None:
        """Append the operations that move the process into its cgroup, unless the plan has them.

        They also reset the CPU affinity to all CPUs of the cpuset.  Passes call this as late as
        possible, so that the runtime moves the process while the executor makes the mounts: on
        cgroup v1, the move waits for an RCU grace period.
        """
        if not self.in_cgroup:
            self.enter_cgroup()
            self.add(operations.affinity(cpus=ALL_CPUS))

    def enter_cgroup(self) -> None:
        """Append the operation that moves the process into its cgroup.

        Unlike ``require_cgroup``, leaves the CPU affinity unchanged.
        """
        self.in_cgroup = True
        self.add(operations.sync(stage=STAGE_CGROUP, where="linux.cgroupsPath"))

    def enter_cgroup_namespace(self) -> None:
        """Append the operation that creates the cgroup namespace, if config.json requests one.

        The process enters its cgroup first, because that cgroup becomes the root of the namespace.
        """
        if self.new & CLONE_NEWCGROUP and not self.in_new_cgroup_namespace:
            self.in_new_cgroup_namespace = True
            self.require_cgroup()
            self.add(operations.unshare(flags=CLONE_NEWCGROUP, where="linux.namespaces"))


# ``linux.mountLabel``: the SELinux context of the filesystems that the runtime mounts.
#
# The engine relabels the sources of bind mounts: only it knows which other containers use them.

# Filesystems whose files get their labels only from the SELinux policy.
UNLABELLED = ("cgroup", "cgroup2", "proc", "sysfs")

# The filesystem whose root directory is labelled after mounting: in a user namespace, and on older
# kernels, it accepts no context option.
ROOT_LABELLED = "mqueue"

# Mount options that set a label.  If one is present, add none: the kernel refuses a second context.
CONTEXTS = ("context", "defcontext", "fscontext")


def _mount_labels(job: Compilation, fstype: str, options: Sequence[str]) -> tuple[list[str], str]:
    """Return (mount options, label for the root directory) that apply ``linux.mountLabel``.

    The mount options label the whole filesystem.  The label is for a filesystem that does not
    accept such options; only its root directory is labelled.  Both are empty if ``options`` already
    contain a label, or if the SELinux policy labels the files.
    """
    label = job.linux["mountLabel"]
    own = any(option.partition("=")[0] in CONTEXTS for option in options)
    if own or fstype in UNLABELLED:
        return [], ""
    return ([], label) if fstype == ROOT_LABELLED else ([f"context={label}"], "")
