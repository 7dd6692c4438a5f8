"""`exec`: run a further process in a created or running container."""

from __future__ import annotations

import posix

from ociruntime.base.errors import ContainerError, HostError, NotRunning, UsageError
from ociruntime.base.process import end_on_signals, is_alive, open_process
from ociruntime.runtime.host.facts import gather
from ociruntime.runtime.host.namespaces import namespaces_apart
from ociruntime.runtime.host.store import FILTERS
from ociruntime.runtime.lifecycle.container import PAUSED, STOPPED, load
from ociruntime.runtime.lifecycle.exec_process import process_of
from ociruntime.runtime.lifecycle.execution import Execution
from ociruntime.runtime.lifecycle.identifier import check_id
from ociruntime.runtime.lifecycle.request_checks import check_terminal, take_descriptors
from ociruntime.runtime.plan.facts import Request
from ociruntime.runtime.plan.joining import compile_exec_plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from socket import socket

    from ociruntime.base.foreground import CaughtSignals
    from ociruntime.runtime.executor.spawn import Executor
    from ociruntime.runtime.lifecycle.container import Container
    from ociruntime.runtime.lifecycle.exec_options import ExecOptions
    from ociruntime.runtime.lifecycle.options import Context
    from ociruntime.runtime.plan.plan import Plan
    from ociruntime.runtime.spec.document import Config, Process


def execute(context: Context, options: ExecOptions) -> int:
    """The program's exit status (128+n if signal n ended it), or 0 with ``detach``.

    With ``detach`` it returns when the program has taken its process's place.  Raises what
    ``begin`` raises.
    """
    if options.detach:
        begin(context, options)
        return 0
    from ociruntime.base.foreground import CaughtSignals, open_relay, wait_foreground

    # Catch signals before the program runs: every later one is forwarded to it.
    signals = CaughtSignals()
    try:
        execution = begin(context, options, signals)
    except BaseException:
        signals.release()
        raise
    executor = execution.executor
    relay = open_relay(execution.master)
    return wait_foreground(executor.pidfd, executor.pid, relay, signals)


def begin(context: Context, options: ExecOptions, caught: CaughtSignals | None = None) -> Execution:
    """Start the process's program, and notify the caller.

    ``caught``: signals that are forwarded to the program, once it runs. The container is not
    locked: a pidfd holds its init instead, whose exit is noticed at every step. Raises UsageError,
    ConfigError, NoSuchContainer, ContainerError, StepError, HostError; then nothing is left behind.
    """
    check_id(options.id)
    if not options.process_file and not options.args:
        raise UsageError("exec args cannot be empty", "name a program, or --process FILE")
    if options.process_file and options.args:
        raise UsageError("--process and a command exclude each other")
    container = load(context.root, options.id)
    status = _check_status(container, options.ignore_paused)
    config = container.config()
    warnings: list[str] = []
    process = process_of(config, options, warnings)
    for warning in warnings:
        context.log.warning(warning)
    check_terminal(process, options.console_socket, options.detach)
    cgroup = container.cgroup()
    if options.cgroups:
        from ociruntime.runtime.cgroups.subgroup import below

        cgroup = below(cgroup, options.cgroups)
    console = _console(options.console_socket)
    pidfd_receiver = _pidfd_receiver(options.pidfd_socket)
    if context.alone and caught is None:
        end_on_signals()
    init_fd = open_process(container.pid, container.started)
    if init_fd < 0:
        raise NotRunning(container.id)
    try:
        plan = _compile(context, options, container, config, process)
        execution = Execution(
            container, cgroup, console, not options.cgroups, options.streams, caught
        )
        # A frozen cgroup would stop the process before its affinity is set, and block us with it.
        born = status != PAUSED and not (process.get("execCPUAffinity") or {}).get("initial")
        execution.run(plan, init_fd, born)
    finally:
        posix.close(init_fd)
    _tell(options, execution.executor, pidfd_receiver)
    return execution


def _check_status(container: Container, ignore_paused: bool) -> str:
    status = container.status()
    if status == STOPPED:
        raise ContainerError(
            f'cannot exec in a stopped container: "{container.id}"', "container not running"
        )
    if status == PAUSED and not ignore_paused:
        raise ContainerError(
            f'cannot exec in a paused container (use --ignore-paused to override): "{container.id}"'
        )
    return status


def _console(path: str) -> socket | None:
    if not path:
        return None
    from ociruntime.base.stream_socket import connect

    return connect(path, "console socket")


def _pidfd_receiver(path: str) -> socket | None:
    if not path:
        return None
    from ociruntime.runtime.host.caller_sockets import connect_pidfd_socket

    return connect_pidfd_socket(path)


def _compile(
    context: Context, options: ExecOptions, container: Container, config: Config, process: Process
) -> Plan:
    apart = namespaces_apart(container.pid)
    # Check that the process still lives: then what was read before was its own.
    if not is_alive(container.pid, container.started):
        raise NotRunning(container.id)
    request = Request(
        id=container.id,
        bundle=container.facts["bundle"],
        rootfs=container.facts["rootfs"],
        console=bool(process.get("terminal")),
        new_keyring=container.facts.get("newKeyring", True),
        preserve_fds=options.preserve_fds,
    )
    take_descriptors(request, context.alone)
    profile = (config.get("linux") or {}).get("seccomp")
    if profile:
        from ociruntime.runtime.host.seccomp_cache import cached_filter

        filters = f"{context.root}/{FILTERS}"
        request.seccomp_filter, request.seccomp_flags, request.seccomp_calls = cached_filter(
            profile, filters
        )
    labelled = bool(process.get("apparmorProfile") or process.get("selinuxLabel"))
    with_process: Config = {**config, "process": process}
    plan = compile_exec_plan(with_process, gather("", (), labelled), request, container.pid, apart)
    for warning in plan.warnings:
        context.log.warning(warning)
    return plan


def _tell(options: ExecOptions, executor: Executor, pidfd_receiver: socket | None) -> None:
    """Notify the caller that the program runs."""
    try:
        if pidfd_receiver is not None:
            from ociruntime.runtime.host.caller_sockets import EXEC, send_pidfd

            send_pidfd(pidfd_receiver, executor.pidfd, EXEC)
        if options.pid_file:
            from ociruntime.base.files import replace_file

            try:
                replace_file(options.pid_file, str(executor.pid).encode(), 0o644)
            except OSError as error:
                raise HostError(f"write the pid file {options.pid_file}", error) from None
    except BaseException:
        executor.discard()
        raise
