"""Decide when to load the seccomp filter: early if it allows the remaining system calls, else last.

Without noNewPrivileges, loading the filter requires CAP_SYS_ADMIN.  If a process kept this
capability until `start`, another container's process with CAP_SYS_PTRACE could trace it, and so
could a process that joins its pid namespace.  Therefore, as in runc, the filter is normally loaded
early: before the last capabilities are dropped, before a fork into a shared pid namespace, and
before the wait for `start`.

The filter is loaded last, just before execve(2), if it denies a system call that is still needed.
It is also loaded last if it notifies an agent, because the agent gets the listener only at `start`.
"""

from __future__ import annotations

from ociruntime.base.seccomp_actions import SECCOMP_FILTER_FLAG_NEW_LISTENER
from ociruntime.runtime.plan import operation_constructors as operations
from ociruntime.runtime.plan.compiler_state import Compilation
from ociruntime.runtime.plan.identity import drop_extra_capabilities
from ociruntime.runtime.spec.config_types import Process

# The system calls that csrc/executor makes for each operation, named as in
# runtime/host/seccomp_verdicts.py.
ALWAYS = frozenset({"exit_group", "sendmsg"})  # announcing the program, reporting a failure
WAITING = frozenset({"accept4", "close", "recvfrom", "recvmsg"})  # sync, wait_start
FORKING = frozenset({"clone", "setsid"})
HOOKS = frozenset(
    "chdir close dup3 execve fcntl fork ftruncate getpid kill lseek memfd_create pidfd_open pipe2"
    " ppoll pread64 read setpgid umask wait4 write".split()
)
LATE_LIMITS = ("RLIMIT_NOFILE", "RLIMIT_FSIZE", "RLIMIT_NPROC")  # csrc/executor/ops_process.c


def loads_early(
    job: Compilation, process: Process, *, waits: bool, forks: bool, late_policy: bool
) -> bool:
    """Return whether the filter can be loaded before the fork and the wait for `start`.

    ``waits``: the process waits for `start`.  ``forks``: the process forks into a joined pid
    namespace.  ``late_policy``: the scheduling policy can be set only after that fork.

    Appends a warning if the filter must be loaded last and the process must keep CAP_SYS_ADMIN
    until then.
    """
    request = job.request
    if late_policy:
        reason = (
            "the scheduling policy must be set first, and only after a fork, which would reset it"
        )
    elif request.seccomp_flags & SECCOMP_FILTER_FLAG_NEW_LISTENER:
        reason = "it notifies an agent (SCMP_ACT_NOTIFY)"
    else:
        missing = _needed_calls(job, process, waits, forks) - request.seccomp_calls
        if not missing:
            return True
        reason = f"it does not allow {', '.join(sorted(missing))}"
    if not process.get("noNewPrivileges"):
        job.warn(
            f"linux.seccomp: the filter is loaded last, because {reason}: until then the process"
            " keeps CAP_SYS_ADMIN, which a tracer (CAP_SYS_PTRACE) in its pid namespace could use"
            " (set process.noNewPrivileges, which makes that capability unnecessary)"
        )
    return False


def _needed_calls(job: Compilation, process: Process, waits: bool, forks: bool) -> frozenset[str]:
    calls = ALWAYS
    if not process.get("noNewPrivileges"):
        calls |= {"capset"}
    if waits:
        calls |= WAITING
        if (job.config.get("hooks") or {}).get("startContainer"):
            calls |= HOOKS
    if forks:
        calls |= FORKING
        if job.request.console:
            calls |= {"ioctl"}
        if job.request.listen_fds:
            calls |= {"getpid"}
    if any(limit["type"] in LATE_LIMITS for limit in process.get("rlimits") or ()):
        calls |= {"prlimit64"}
    return calls


def load_early(job: Compilation, process: Process) -> None:
    """Append operations that load the seccomp filter and drop the capabilities kept for that."""
    _add(job, 0)
    drop_extra_capabilities(job, process)


def load_last(job: Compilation) -> None:
    """Append the operation that loads the seccomp filter immediately before execve(2)."""
    _add(job, 1)


def _add(job: Compilation, last: int) -> None:
    job.add(
        operations.seccomp(
            flags=job.request.seccomp_flags,
            last=last,
            filter=job.request.seccomp_filter,
            where="linux.seccomp",
        ),
    )
