"""Plan `exec`: run an additional process in a running container.

The passes are those for the container's init, except that the process joins the container's
namespaces instead of creating new ones.  The executor starts on the host, joins the namespaces of
the container's init and drops the privileges that the new process must not have.  Only then does it
fork into the pid namespace, so that the container's processes never see a process with the
runtime's privileges (CVE-2016-9962).
"""

from __future__ import annotations

from ociruntime.base.linux import CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER
from ociruntime.runtime.plan import operation_constructors as operations
from ociruntime.runtime.plan.compiler_state import Compilation
from ociruntime.runtime.plan.facts import HostFacts, Request
from ociruntime.runtime.plan.identity import add_capabilities
from ociruntime.runtime.plan.operation_table import CONSOLE_CONTROL
from ociruntime.runtime.plan.plan import Plan
from ociruntime.runtime.plan.process import (
    add_console,
    add_fork,
    add_hard_limits,
    add_listen_pid,
    add_oom_score,
    add_program,
    prepare_process,
)
from ociruntime.runtime.plan.scheduling import add_scheduler, compile_affinity, ends_by_fork
from ociruntime.runtime.plan.security_labels import add_keyring
from ociruntime.runtime.spec.config_types import Config

WHERE = "linux.namespaces"


def compile_exec_plan(
    config: Config, facts: HostFacts, request: Request, pid: int, apart: int
) -> Plan:
    """Return the plan that runs ``process`` of ``config`` in a running container.

    ``pid``: the container's init.  ``apart``: the CLONE_NEW* flags of the namespaces that the init
    does not share with the runtime.  Raises ConfigError for a setting of the process that this host
    cannot apply.
    """
    job = Compilation(config, facts, request)
    job.joined = apart
    process = config["process"]
    add_oom_score(job)
    if apart & CLONE_NEWUSER:
        add_hard_limits(job)
    compile_affinity(job, process, "initial")
    if process.get("execCPUAffinity"):
        job.enter_cgroup()
        compile_affinity(job, process, "final")
    else:
        job.require_cgroup()
    if not request.console:
        # Open it before entering the namespaces, while the host's null device is accessible.
        job.add(operations.null_streams(root_of=pid))
    root_of = 0 if apart & CLONE_NEWNS else pid
    job.add(operations.join_process(flags=apart, root_of=root_of, where=WHERE))
    if apart & CLONE_NEWUSER:
        job.add(operations.become_root(where=WHERE))
    if request.new_keyring:
        add_keyring(job, process)
    forks = bool(apart & CLONE_NEWPID)
    if request.console:
        add_console(job, process, 0 if forks else CONSOLE_CONTROL)
    late_policy = forks and ends_by_fork(process.get("scheduler"))
    environment = prepare_process(job, process, late_policy)
    # Close them before the fork: a tracer in the container could copy descriptors from the child.
    job.add(operations.close_host())
    filter_early = False
    if request.seccomp_filter:
        from ociruntime.runtime.plan.seccomp_timing import load_early, load_last, loads_early

        filter_early = forks and loads_early(
            job, process, waits=False, forks=True, late_policy=late_policy
        )
    if filter_early:
        load_early(job, process)
    if forks:
        add_fork(job)
    if late_policy:
        add_scheduler(job, process)
        add_capabilities(job, process)
    add_listen_pid(job)
    if request.seccomp_filter and not filter_early:
        load_last(job)
    add_program(job, process, environment)
    return job.plan
