"""Plan ``process``: limits, identity, privileges and program, in the required order.

Operations that need privileges come first.  Next come the user and the capabilities.  The seccomp
filter comes later, because it may deny many of the system calls of the earlier operations.
"""

from __future__ import annotations

from ociruntime.base.linux import CLONE_NEWUSER, PERSONALITIES, RLIMITS
from ociruntime.base.paths import clean
from ociruntime.runtime.plan import operation_constructors as operations
from ociruntime.runtime.plan.compiler_state import Compilation
from ociruntime.runtime.plan.facts import Request
from ociruntime.runtime.plan.hooks import compile_start_hooks
from ociruntime.runtime.plan.identity import add_capabilities, add_umask, compile_user
from ociruntime.runtime.plan.operation_table import STAGE_READY
from ociruntime.runtime.plan.scheduling import add_scheduler, compile_scheduling, ends_by_fork
from ociruntime.runtime.plan.security_labels import add_labels
from ociruntime.runtime.spec.config_types import Process

# The GNU C library's default path of execvp(3).
DEFAULT_PATH = "/bin:/usr/bin"

LISTEN_VARIABLES = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")


def compile_process(job: Compilation) -> None:
    """Append operations for ``process``.

    If config.json has no ``process``, the init only waits for `start` and has no program to
    execute.
    """
    process = job.config.get("process")
    if not process:
        job.require_cgroup()
        job.add(operations.close_host())
        if job.forks_last:
            add_fork(job)
        job.add(operations.sync(stage=STAGE_READY))
        job.add(operations.wait_start())
        return
    forks = job.forks_last
    late_policy = forks and ends_by_fork(process.get("scheduler"))
    environment = prepare_process(job, process, late_policy)
    job.require_cgroup()
    job.add(operations.close_host())
    filter_early = False
    if job.request.seccomp_filter:
        from ociruntime.runtime.plan.seccomp_timing import load_early, load_last, loads_early

        filter_early = loads_early(job, process, waits=True, forks=forks, late_policy=late_policy)
    if filter_early:
        if not forks:
            add_listen_pid(job)
        load_early(job, process)
    if forks:
        add_fork(job)
    if late_policy:
        add_scheduler(job, process)
        add_capabilities(job, process)
    if filter_early and forks:
        add_listen_pid(job)
    job.add(operations.sync(stage=STAGE_READY))
    job.add(operations.wait_start())
    compile_start_hooks(job)
    if not filter_early:
        add_listen_pid(job)
        if job.request.seccomp_filter:
            load_last(job)
    add_program(job, process, environment)


def prepare_process(job: Compilation, process: Process, late_policy: bool = False) -> list[str]:
    """Append operations for limits, labels, user and executable; return the program's environment.

    ``late_policy``: leave out the scheduling policy.  The caller then sets the policy and the
    capabilities later.
    """
    _add_limits(job, process)
    _add_personality(job)
    compile_scheduling(job, process, late_policy)
    add_labels(job, process)
    _add_user(job, process, late_policy)
    environment = unique_environment(process.get("env") or [])
    if job.request.listen_fds:
        environment = listening_environment(environment, job.request)
    names = {entry.partition("=")[0]: entry for entry in environment}
    uid = process["user"]["uid"]
    if "HOME" not in names:
        job.add(operations.home(uid=uid, where="process.env"))
    path = names.get("PATH")
    job.add(
        operations.find_executable(
            file=process["args"][0],
            path=DEFAULT_PATH if path is None else path.partition("=")[2],
            where="process.args[0]",
        ),
    )
    return environment


def add_fork(job: Compilation) -> None:
    """Append the fork into the joined pid namespace.  Call it after dropping all privileges."""
    terminal = int(job.request.console)
    job.add(operations.clone_process(terminal=terminal, where="linux.namespaces"))


def add_listen_pid(job: Compilation) -> None:
    """Append the operation that sets LISTEN_PID to the program's pid, if systemd passed sockets."""
    if job.request.listen_fds:
        job.add(operations.listen_pid(where="LISTEN_FDS"))


def add_program(job: Compilation, process: Process, environment: list[str]) -> None:
    """Append the operation that executes the program (execve(2))."""
    job.add(operations.exec(args=process["args"], env=environment, where="process.args"))


def add_console(job: Compilation, process: Process, flags: int) -> None:
    """Append the operation that opens a terminal of the container's devpts.

    ``flags`` is a mask of CONSOLE_* bits.
    """
    size = process.get("consoleSize")
    job.add(
        operations.console(
            rows=size["height"] if size else 0,
            columns=size["width"] if size else 0,
            uid=process["user"]["uid"],
            flags=flags,
            where="process.terminal",
        ),
    )


def add_oom_score(job: Compilation) -> None:
    """Append the operation that sets the OOM score adjustment, which every later fork inherits.

    Lowering the score requires CAP_SYS_RESOURCE on the host.
    """
    process = job.config.get("process")
    score = process.get("oomScoreAdj") if process else None
    if score is not None:
        job.add(
            operations.write_proc(
                path="self/oom_score_adj",
                data=str(score),
                where="process.oomScoreAdj",
            ),
        )


def add_hard_limits(job: Compilation) -> None:
    """Append operations that set the hard limits, before the process enters its user namespace.

    Inside a user namespace, a hard limit cannot be raised.  The soft limits are set just before
    execve(2), so that low limits do not hinder the setup.
    """
    process = job.config.get("process")
    for index, limit in enumerate((process and process.get("rlimits")) or ()):
        job.add(
            operations.rlimit(
                resource=RLIMITS[limit["type"]],
                soft=limit["hard"],
                hard=limit["hard"],
                where=f"process.rlimits[{index}]",
            ),
        )


def _add_limits(job: Compilation, process: Process) -> None:
    for index, limit in enumerate(process.get("rlimits") or ()):
        job.add(
            operations.rlimit(
                resource=RLIMITS[limit["type"]],
                soft=limit["soft"],
                hard=limit["hard"],
                where=f"process.rlimits[{index}]",
            ),
        )


def _add_personality(job: Compilation) -> None:
    personality = job.linux.get("personality")
    if not personality:
        return
    job.add(
        operations.personality(
            domain=PERSONALITIES[personality["domain"]],
            where="linux.personality",
        ),
    )


def _add_user(job: Compilation, process: Process, late_policy: bool) -> None:
    """Append operations that switch to the user, with a chdir(2) before and after the switch.

    Root may enter directories that the user may not enter; on a network filesystem, the user may
    enter directories that root may not.
    """
    uid = process["user"]["uid"]
    if not job.request.console and (uid or (job.new | job.joined) & CLONE_NEWUSER):
        job.add(operations.stdio_owner(uid=uid, where="process.user.uid"))
    cwd = clean(process["cwd"])
    job.add(operations.chdir(path=cwd, optional=1, where="process.cwd"))
    compile_user(job, process, late_policy)
    job.add(operations.chdir(path=cwd, optional=0, where="process.cwd"))
    if process.get("noNewPrivileges"):
        job.add(operations.no_new_privs(where="process.noNewPrivileges"))
    add_umask(job, process)


def listening_environment(environment: list[str], request: Request) -> list[str]:
    """Return ``environment`` with the caller's LISTEN_FDS and LISTEN_FDNAMES (sd_listen_fds(3))."""
    result = [entry for entry in environment if entry.partition("=")[0] not in LISTEN_VARIABLES]
    result.append(f"LISTEN_FDS={request.listen_fds}")
    if request.listen_names:
        result.append(f"LISTEN_FDNAMES={request.listen_names}")
    return result


def unique_environment(env: list[str]) -> list[str]:
    """Return ``env`` with only the last entry for each name.

    If ``env`` had two entries for a name, the C library would decide which of them getenv(3)
    returns.
    """
    last = {entry.partition("=")[0]: index for index, entry in enumerate(env)}
    if len(last) == len(env):
        return env
    return [entry for index, entry in enumerate(env) if last[entry.partition("=")[0]] == index]
