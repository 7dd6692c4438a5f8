"""Plan the process's CPU affinity, scheduling policy, I/O priority and memory policy."""

from __future__ import annotations

from ociruntime.base.errors import ConfigError
from ociruntime.base.linux import (
    IO_PRIORITIES,
    IOPRIO_CLASS_SHIFT,
    MEMORY_POLICIES,
    MEMORY_POLICY_FLAGS,
    SCHEDULER_FLAGS,
    SCHEDULERS,
)
from ociruntime.runtime.plan import operation_constructors as operations
from ociruntime.runtime.plan.compiler_state import Compilation
from ociruntime.runtime.spec.config_types import Process, Scheduler

HIGHEST_NODE = 1023  # the kernel's maximum (CONFIG_NODES_SHIFT)


def compile_scheduling(job: Compilation, process: Process, late_policy: bool) -> None:
    """Append operations for ioPriority, memoryPolicy and, unless ``late_policy``, scheduler."""
    priority = process.get("ioPriority")
    if priority:
        job.add(
            operations.io_priority(
                value=IO_PRIORITIES[priority["class"]] << IOPRIO_CLASS_SHIFT
                | (priority.get("priority") or 0),
                where="process.ioPriority",
            ),
        )
    if process.get("scheduler") and not late_policy:
        add_scheduler(job, process)
    policy = job.linux.get("memoryPolicy")
    if policy:
        # Node numbers are relative to the cpuset, so the process must be in its cgroup.
        job.require_cgroup()
        mode = MEMORY_POLICIES[policy["mode"]]
        for flag in policy.get("flags") or ():
            mode |= MEMORY_POLICY_FLAGS[flag]
        job.add(
            operations.memory_policy(
                mode=mode,
                nodes=mask_words(node_mask(policy.get("nodes") or "")),
                where="linux.memoryPolicy",
            ),
        )


def ends_by_fork(scheduler: Scheduler | None) -> bool:
    """Return whether fork(2) would reset the scheduling policy, or would fail because of it."""
    return scheduler is not None and (
        scheduler["policy"] == "SCHED_DEADLINE"
        or "SCHED_FLAG_RESET_ON_FORK" in (scheduler.get("flags") or ())
    )


def add_scheduler(job: Compilation, process: Process) -> None:
    """Append the operation for ``process.scheduler``, which must be set.

    Raises ConfigError for SCHED_ISO, which Linux does not have.
    """
    scheduler = process["scheduler"]
    policy = scheduler["policy"]
    if policy == "SCHED_ISO":
        raise ConfigError(
            "process.scheduler.policy",
            "SCHED_ISO is not supported",
            "the Linux kernel reserves the number but has no such policy",
        )
    # A real-time policy needs realtime runtime in the process's cpu cgroup (cgroup v1).
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


def mask_words(mask: int) -> bytes:
    """Convert a bit mask to the kernel's format, 64-bit words; an empty mask becomes b""."""
    return mask.to_bytes((mask.bit_length() + 63) // 64 * 8, "little")


def node_mask(text: str) -> int:
    """Convert a list of NUMA nodes, such as ``0-3,7``, to a bit mask.

    ``0-30:2/4`` means the first two of every four nodes.  runtime/spec/cpu_list.py must have
    checked the form of the list.  Raises ConfigError for a node above HIGHEST_NODE.
    """
    from ociruntime.runtime.spec.cpu_list import expand_list

    mask = 0
    for node in expand_list(text):
        if node > HIGHEST_NODE:
            message = f"NUMA node {node} does not exist: Linux has nodes 0 to {HIGHEST_NODE}"
            raise ConfigError("linux.memoryPolicy.nodes", message)
        mask |= 1 << node
    return mask


def compile_affinity(job: Compilation, process: Process, moment: str) -> None:
    """Append the operation that sets the CPU affinity of ``process.execCPUAffinity``, if it is set.

    ``moment`` selects the member of execCPUAffinity: ``initial`` or ``final``.
    """
    text = str((process.get("execCPUAffinity") or {}).get(moment, "")).strip()
    if text:
        from ociruntime.runtime.spec.cpu_list import expand_list

        mask = 0
        for cpu in expand_list(text):
            mask |= 1 << cpu
        where = f"process.execCPUAffinity.{moment}"
        job.add(operations.affinity(cpus=mask_words(mask), where=where))
