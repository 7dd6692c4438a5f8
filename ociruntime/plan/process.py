"""From a finished container to its program: what ``process`` says, in the order it must go.

Everything that takes privilege first, then the user, then what the user may do; the filter
of system calls last, because it may forbid any of the rest.
"""

from __future__ import annotations

from ociruntime.errors import ConfigError
from ociruntime.linux import CLONE_NEWUSER, PERSONALITIES, RLIMITS
from ociruntime.plan import operations
from ociruntime.plan.hooks import compile_start_hooks
from ociruntime.plan.identity import compile_user
from ociruntime.plan.ops import STAGE_READY
from ociruntime.plan.paths import clean
from ociruntime.plan.scheduling import compile_scheduling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.plan.compilation import Compilation
    from ociruntime.spec.document import Process

# What execvp(3) searches without a PATH, in the GNU C library.
DEFAULT_PATH = "/bin:/usr/bin"

# By the specification an absent umask leaves the caller's; every runtime sets this one, and
# a container must not depend on the shell that made it.
DEFAULT_UMASK = 0o022


def compile_process(job: Compilation) -> None:
    """``process``; without one the container is made but can never be started."""
    process = job.config.get("process")
    if not process:
        job.require_cgroup()
        job.add(operations.close_host())
        job.add(operations.sync(stage=STAGE_READY))
        job.add(operations.wait_start())
        return
    _add_limits(job, process)
    _add_personality(job)
    compile_scheduling(job, process)
    _add_labels(job, process)
    _add_user(job, process)
    environment = unique_environment(process.get("env") or [])
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
    job.require_cgroup()
    job.add(operations.close_host())
    job.add(operations.sync(stage=STAGE_READY))
    job.add(operations.wait_start())
    compile_start_hooks(job)
    if job.request.seccomp_filter:
        job.add(
            operations.seccomp(
                flags=job.request.seccomp_flags,
                filter=job.request.seccomp_filter,
                where="linux.seccomp",
            ),
        )
    job.add(operations.exec(args=process["args"], env=environment, where="process.args"))


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


def _add_labels(job: Compilation, process: Process) -> None:
    """Labels that the next exec takes on."""
    profile = process.get("apparmorProfile")
    if profile:
        where = "process.apparmorProfile"
        if not job.facts.apparmor:
            raise ConfigError(where, "AppArmor is not enabled on this host")
        job.add(
            operations.write_proc(
                path="self/attr/apparmor/exec",
                data=f"exec {profile}",
                where=where,
            ),
        )
    label = process.get("selinuxLabel")
    if label:
        where = "process.selinuxLabel"
        if not job.facts.selinux:
            raise ConfigError(where, "SELinux is not enabled on this host")
        job.add(operations.write_proc(path="self/attr/exec", data=label, where=where))


def _add_user(job: Compilation, process: Process) -> None:
    """Become the user; before and after, stand in the working directory.

    Before, because root may enter directories that the user may not; after, because on a
    network filesystem it can be the other way round.
    """
    uid = process["user"]["uid"]
    if not job.request.console and (uid or (job.new | job.joined) & CLONE_NEWUSER):
        job.add(operations.stdio_owner(uid=uid, where="process.user.uid"))
    cwd = clean(process["cwd"])
    job.add(operations.chdir(path=cwd, optional=1, where="process.cwd"))
    compile_user(job, process)
    job.add(operations.chdir(path=cwd, optional=0, where="process.cwd"))
    if process.get("noNewPrivileges"):
        job.add(operations.no_new_privs(where="process.noNewPrivileges"))
    umask = process["user"].get("umask")
    job.add(
        operations.umask(
            mask=DEFAULT_UMASK if umask is None else umask,
            where="process.user.umask",
        ),
    )


def unique_environment(env: list[str]) -> list[str]:
    """The last of several entries with one name; which of them getenv(3) finds is not defined."""
    last = {entry.partition("=")[0]: index for index, entry in enumerate(env)}
    if len(last) == len(env):
        return env
    return [entry for index, entry in enumerate(env) if last[entry.partition("=")[0]] == index]
