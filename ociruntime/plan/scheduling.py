"""How the process is scheduled: CPU, I/O, and where its memory lies."""

from __future__ import annotations

from ociruntime.errors import ConfigError
from ociruntime.linux import (
    IO_PRIORITIES,
    IOPRIO_CLASS_SHIFT,
    MEMORY_POLICIES,
    MEMORY_POLICY_FLAGS,
    SCHEDULER_FLAGS,
    SCHEDULERS,
)
from ociruntime.plan import operations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.plan.compilation import Compilation
    from ociruntime.spec.document import Process, Scheduler


def compile_scheduling(job: Compilation, process: Process) -> None:
    """ioPriority, scheduler, linux.memoryPolicy."""
    priority = process.get("ioPriority")
    if priority:
        job.add(
            operations.io_priority(
                value=IO_PRIORITIES[priority["class"]] << IOPRIO_CLASS_SHIFT
                | (priority.get("priority") or 0),
                where="process.ioPriority",
            ),
        )
    scheduler = process.get("scheduler")
    if scheduler:
        _add_scheduler(job, scheduler)
    policy = job.linux.get("memoryPolicy")
    if policy:
        # The nodes count within the cpuset, so the process must be in it.
        job.require_cgroup()
        mode = MEMORY_POLICIES[policy["mode"]]
        for flag in policy.get("flags") or ():
            mode |= MEMORY_POLICY_FLAGS[flag]
        job.add(
            operations.memory_policy(
                mode=mode,
                nodes=node_mask(policy.get("nodes") or "", "linux.memoryPolicy.nodes"),
                where="linux.memoryPolicy",
            ),
        )


def _add_scheduler(job: Compilation, scheduler: Scheduler) -> None:
    policy = scheduler["policy"]
    if policy == "SCHED_ISO":
        raise ConfigError(
            "process.scheduler.policy",
            "SCHED_ISO is not supported",
            "the Linux kernel reserves the number but has no such policy",
        )
    # A real-time policy needs run time in the cpu cgroup that the process is in.
    job.require_cgroup()
    flags = 0
    for flag in scheduler.get("flags") or ():
        flags |= SCHEDULER_FLAGS[flag]
    job.add(
        operations.scheduler(
            policy=SCHEDULERS[policy],
            flags=flags,
            nice=(scheduler.get("nice") or 0) & 0xFFFFFFFF,
            priority=scheduler.get("priority") or 0,
            runtime=scheduler.get("runtime") or 0,
            deadline=scheduler.get("deadline") or 0,
            period=scheduler.get("period") or 0,
            where="process.scheduler",
        ),
    )


def node_mask(text: str, where: str) -> int:
    """``0-3,7`` or ``0-30:2/4`` (two of every four) as a bit mask.

    The text is well-formed (spec/cpu_list.py).  Raises ConfigError for a node above 63.
    """
    mask = 0
    for part in text.strip().split(",") if text.strip() else ():
        numbers, _, pattern = part.partition(":")
        low, _, high = numbers.partition("-")
        used, _, group = pattern.partition("/")
        first, last = int(low), int(high or low)
        if last > 63:
            raise ConfigError(where, f"node {last}: nodes above 63 are not supported yet")
        for node in range(first, last + 1):
            if not pattern or (node - first) % max(int(group), 1) < int(used):
                mask |= 1 << node
    return mask
