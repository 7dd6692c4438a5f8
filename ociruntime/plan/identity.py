"""Who the process is: user, groups, capabilities, no new privileges."""

from __future__ import annotations

from ociruntime.linux import CAPABILITIES, CLONE_NEWUSER
from ociruntime.plan import operations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.plan.compilation import Compilation
    from ociruntime.spec.document import Process

CAP_SYS_ADMIN = 1 << CAPABILITIES.index("CAP_SYS_ADMIN")
BITS: dict[str, int] = {name: 1 << number for number, name in enumerate(CAPABILITIES)}


def capability_masks(job: Compilation, process: Process) -> dict[str, int]:
    """The five sets as masks, without what cannot be granted: that is a warning by the spec.

    No ``capabilities`` at all means none, the careful reading of a text that leaves it open.
    """
    wanted = process.get("capabilities") or {}
    allowed = (2 << job.facts.last_capability) - 1
    if not (job.new | job.joined) & CLONE_NEWUSER:
        # Entering a user namespace fills the bounding set (user_namespaces(7)); otherwise
        # nothing comes back that the runtime has lost.
        allowed &= job.facts.bounding
    masks = {
        "bounding": _mask(wanted.get("bounding")),
        "effective": _mask(wanted.get("effective")),
        "permitted": _mask(wanted.get("permitted")),
        "inheritable": _mask(wanted.get("inheritable")),
        "ambient": _mask(wanted.get("ambient")),
    }
    lost = 0
    for kind, mask in masks.items():
        lost |= mask & ~allowed
        masks[kind] = mask & allowed
    if lost:
        job.warn(f"process.capabilities: {_names(lost)} cannot be granted here and is left out")
    # The kernel refuses the whole call when one of these does not hold (capabilities(7)).
    _restrict(job, masks, "effective", masks["permitted"], "permitted")
    _restrict(job, masks, "inheritable", masks["bounding"], "bounding")
    _restrict(job, masks, "ambient", masks["permitted"], "permitted")
    _restrict(job, masks, "ambient", masks["inheritable"], "inheritable")
    return masks


def _mask(names: list[str] | None) -> int:
    """An unknown name is no error and has been warned about (spec/validate_process.py)."""
    mask = 0
    for name in names or ():
        mask |= BITS.get(name, 0)
    return mask


def _names(mask: int) -> str:
    return ", ".join(name for name, bit in BITS.items() if mask & bit)


def _restrict(job: Compilation, masks: dict[str, int], kind: str, limit: int, other: str) -> None:
    lost = masks[kind] & ~limit
    if lost:
        job.warn(f"process.capabilities.{kind}: {_names(lost)} left out: not in {other}")
        masks[kind] &= limit


def compile_user(job: Compilation, process: Process) -> None:
    """Bounding set while CAP_SETPCAP is there, then the user, then the other sets."""
    masks = capability_masks(job, process)
    user = process["user"]
    where = "process.capabilities"
    job.add(operations.bounding(keep=masks["bounding"], where=f"{where}.bounding"))
    job.add(
        operations.user(
            uid=user["uid"],
            gid=user["gid"],
            groups=user.get("additionalGids") or [],
            set_groups=0 if _set_groups_denied(job) else 1,
            where="process.user",
        ),
    )
    extra = 0
    if job.request.seccomp_filter and not process.get("noNewPrivileges"):
        # To load the filter, which is the last thing before exec; exec computes the sets anew
        # from the bounding, inheritable and ambient ones, so that nothing of it is left.
        extra = CAP_SYS_ADMIN
    job.add(
        operations.capabilities(
            effective=masks["effective"] | extra,
            permitted=masks["permitted"] | extra,
            inheritable=masks["inheritable"],
            ambient=masks["ambient"],
            where=where,
        ),
    )


def _set_groups_denied(job: Compilation) -> bool:
    """An unprivileged user who maps only his own group must give up setgroups(2) first."""
    mappings = job.linux.get("gidMappings") or ()
    return bool(
        job.new & CLONE_NEWUSER
        and job.facts.uid != 0
        and len(mappings) == 1
        and mappings[0]["size"] == 1
    )
