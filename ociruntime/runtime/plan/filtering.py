"""When the filter of system calls is loaded: as early as it leaves the executor enough to do.

Without noNewPrivileges loading it takes CAP_SYS_ADMIN.  A process that kept that until its start
could be seized by a neighbour with CAP_SYS_PTRACE, or by whoever joins its pid namespace.  So the
filter comes before the last capabilities go, before a fork into a pid namespace that others are
in, and before the wait for `start`, like runc's.  Where it refuses a call that is still needed, or
asks an agent that is told of it by `start`, it comes last, just before execve(2).
"""

from __future__ import annotations

from ociruntime.base.linux import SECCOMP_FILTER_FLAG_NEW_LISTENER
from ociruntime.runtime.plan import operations
from ociruntime.runtime.plan.identity import drop_extra_capabilities

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.runtime.plan.compilation import Compilation
    from ociruntime.runtime.spec.document import Process

# By the names of runtime/host/seccomp_verdicts.py: what csrc/executor calls for each operation.
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

    ``late_policy``: the scheduling policy can be set only behind the fork. Warns if the filter
    cannot be loaded early, and the process keeps a capability for that.
    """
    request = job.request
    if late_policy:
        reason = "the scheduling policy, which a fork would reset, comes first"
    elif request.seccomp_flags & SECCOMP_FILTER_FLAG_NEW_LISTENER:
        reason = "it has an agent (SCMP_ACT_NOTIFY)"
    else:
        missing = _needed(job, process, waits, forks) - request.seccomp_calls
        if not missing:
            return True
        reason = f"it does not let through {', '.join(sorted(missing))}"
    if not process.get("noNewPrivileges"):
        job.warn(
            f"linux.seccomp: the filter is loaded last, as {reason}: until then the process keeps"
            " CAP_SYS_ADMIN, which others with CAP_SYS_PTRACE in its pid namespace could use"
        )
    return False


def _needed(job: Compilation, process: Process, waits: bool, forks: bool) -> frozenset[str]:
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
    """Load the filter, then give up what that took."""
    _add(job, 0)
    drop_extra_capabilities(job, process)


def load_last(job: Compilation) -> None:
    """Load the filter as the last thing before the program."""
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
