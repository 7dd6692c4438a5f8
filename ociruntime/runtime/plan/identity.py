"""Plan the identity of the process: user, groups, umask and capabilities."""

from __future__ import annotations

from ociruntime.base.capabilities import CAPABILITIES
from ociruntime.base.errors import ConfigError
from ociruntime.base.linux import CLONE_NEWUSER
from ociruntime.runtime.plan import operation_constructors as operations
from ociruntime.runtime.plan.compiler_state import Compilation
from ociruntime.runtime.spec.config_types import Process

# By the specification, a process without umask keeps the caller's umask.  Every runtime sets 0022
# instead: a container must not depend on the shell that created it.
DEFAULT_UMASK = 0o022

CAP_SYS_ADMIN = 1 << CAPABILITIES.index("CAP_SYS_ADMIN")
CAP_SYS_NICE = 1 << CAPABILITIES.index("CAP_SYS_NICE")
BITS: dict[str, int] = {name: 1 << number for number, name in enumerate(CAPABILITIES)}


def capability_masks(job: Compilation, process: Process) -> dict[str, int]:
    """Return {name: bit mask} for the five capability sets, which are named as in config.json.

    Capabilities that cannot be granted are left out with a warning.  If ``process`` has no
    ``capabilities``, all sets are empty: the specification does not define a default.
    """
    configured = process.get("capabilities") or {}
    allowed = (2 << job.facts.last_capability) - 1
    if not (job.new | job.joined) & CLONE_NEWUSER:
        # Entering a user namespace fills the bounding set (user_namespaces(7)); otherwise
        # the runtime cannot regain capabilities that it has lost.
        allowed &= job.facts.bounding
    masks = {
        "bounding": _mask(configured.get("bounding")),
        "effective": _mask(configured.get("effective")),
        "permitted": _mask(configured.get("permitted")),
        "inheritable": _mask(configured.get("inheritable")),
        "ambient": _mask(configured.get("ambient")),
    }
    lost = 0
    for kind, mask in masks.items():
        lost |= mask & ~allowed
        masks[kind] = mask & allowed
    if lost:
        names = _names(lost)
        job.warn(
            f"process.capabilities: {names} left out: not in the runtime's bounding set, or unknown"
            " to this kernel"
        )
    # The kernel refuses capset(2) if a set exceeds its limit (capabilities(7)).
    _restrict(job, masks, "effective", masks["permitted"], "permitted")
    _restrict(job, masks, "inheritable", masks["bounding"], "bounding")
    _restrict(job, masks, "ambient", masks["permitted"], "permitted")
    # No warning: buildah always lists ambient capabilities and never inheritable ones.
    masks["ambient"] &= masks["inheritable"]
    return masks


def _mask(names: list[str] | None) -> int:
    """Return the bit mask for a list of capability names.

    Skips unknown names: validate_process.py warns about them.
    """
    mask = 0
    for name in names or ():
        mask |= BITS.get(name, 0)
    return mask


def _names(mask: int) -> str:
    return ", ".join(name for name, bit in BITS.items() if mask & bit)


def _restrict(
    job: Compilation, masks: dict[str, int], kind: str, limit: int, superset: str
) -> None:
    """Remove from ``masks[kind]`` all capabilities that are not in ``limit``, with a warning.

    ``superset``: the name of the set ``limit`` in the warning, such as ``permitted``.
    """
    lost = masks[kind] & ~limit
    if lost:
        job.warn(f"process.capabilities.{kind}: {_names(lost)} left out: not in the {superset} set")
        masks[kind] &= limit


def compile_user(job: Compilation, process: Process, late_policy: bool = False) -> None:
    """Append operations that set the bounding set, then the user, then the other capability sets.

    ``late_policy``: the scheduling policy is set after these operations, so they let the process
    keep CAP_SYS_NICE.  The next operation from ``add_capabilities`` drops it.
    """
    masks = capability_masks(job, process)
    user = process["user"]
    job.add(operations.bounding(keep=masks["bounding"], where="process.capabilities.bounding"))
    job.add(
        operations.user(
            uid=user["uid"],
            gid=user["gid"],
            groups=user.get("additionalGids") or [],
            set_groups=1 if _sets_groups(job, process) else 0,
            where="process.user",
        ),
    )
    add_capabilities(job, process, job.facts.bounding & CAP_SYS_NICE if late_policy else 0)


def add_capabilities(job: Compilation, process: Process, extra: int = 0) -> None:
    """Append the operation that sets all capability sets except the bounding set.

    ``extra``: mask of additional capabilities that the process keeps for now.  The next such
    operation drops them.
    """
    masks = capability_masks(job, process)
    if job.request.seccomp_filter and not process.get("noNewPrivileges"):
        # Loading the filter needs it.  ``drop_extra_capabilities`` drops it, or execve(2), which
        # recomputes the sets from the bounding, inheritable and ambient ones.
        extra |= CAP_SYS_ADMIN
    job.add(
        operations.capabilities(
            effective=masks["effective"] | extra,
            permitted=masks["permitted"] | extra,
            inheritable=masks["inheritable"],
            ambient=masks["ambient"],
            where="process.capabilities",
        ),
    )


def drop_extra_capabilities(job: Compilation, process: Process) -> None:
    """Append the operation that drops CAP_SYS_ADMIN, if it was kept only to load the filter."""
    masks = capability_masks(job, process)
    if not process.get("noNewPrivileges") and CAP_SYS_ADMIN & ~(
        masks["effective"] & masks["permitted"]
    ):
        job.add(
            operations.drop_extra(
                effective=masks["effective"],
                permitted=masks["permitted"],
                inheritable=masks["inheritable"],
                where="process.capabilities",
            ),
        )


def _sets_groups(job: Compilation, process: Process) -> bool:
    """Return whether to set the process's supplementary groups to those of config.json.

    The process keeps the caller's groups instead if setgroups(2) is denied, or if an annotation
    requests it (podman's ``--group-add keep-groups``).  Raises ConfigError if setgroups(2) is
    denied although ``additionalGids`` is set.
    """
    annotations = job.config.get("annotations")
    if annotations:
        from ociruntime.runtime.spec.annotations import KEEP_GROUPS

        if annotations.get(KEEP_GROUPS) == "1":
            return False
    if not _denies_setgroups(job):
        return True
    if process["user"].get("additionalGids"):
        raise ConfigError(
            "process.user.additionalGids",
            "cannot be set: the user namespace denies setgroups(2), as always if an unprivileged"
            " user maps only their own group",
            "remove the additional groups, or map a range from /etc/subgid in linux.gidMappings",
        )
    return False


def _denies_setgroups(job: Compilation) -> bool:
    """Return whether the user namespace denies setgroups(2).

    This is the case if an unprivileged user maps only their own group: the kernel then requires
    that setgroups(2) is denied before the gid map is written (runtime/host/idmap.py).
    """
    mappings = job.linux.get("gidMappings") or ()
    return bool(
        (job.new | job.joined) & CLONE_NEWUSER
        and job.facts.uid != 0
        and len(mappings) == 1
        and mappings[0]["size"] == 1
        and mappings[0]["hostID"] == job.facts.gid
    )


def add_umask(job: Compilation, process: Process) -> None:
    """Append an operation that sets the umask of ``process.user``, by default DEFAULT_UMASK."""
    umask = process["user"].get("umask")
    job.add(
        operations.umask(
            mask=DEFAULT_UMASK if umask is None else umask,
            where="process.user.umask",
        ),
    )
