"""`exec`: run another process in a container.

This file checks the options and makes the plan; ``exec_steps.py`` starts the process.
"""

from __future__ import annotations

import posix
from errno import ENOENT, ESRCH

from ociruntime.base.errors import ContainerError, HostError, NotRunning, UsageError
from ociruntime.base.files import exists
from ociruntime.base.process import (
    await_end,
    end_on_signals,
    no_longer_end_on_signals,
    open_process,
)
from ociruntime.runtime.host.gather_facts import gather
from ociruntime.runtime.host.namespaces import namespaces_apart
from ociruntime.runtime.host.state_directory import FILTERS
from ociruntime.runtime.lifecycle.container import PAUSED, STOPPED, load
from ociruntime.runtime.lifecycle.container_id import check_id
from ociruntime.runtime.lifecycle.exec_process import process_of
from ociruntime.runtime.lifecycle.exec_steps import Execution
from ociruntime.runtime.lifecycle.passed_descriptors import (
    activated,
    occupy_closed,
    take_descriptors,
)
from ociruntime.runtime.lifecycle.terminal_options import check_terminal
from ociruntime.runtime.plan.exec_plan import compile_exec_plan
from ociruntime.runtime.plan.facts import Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from socket import socket

    from ociruntime.base.foreground import SignalQueue
    from ociruntime.runtime.executor.spawn import Executor
    from ociruntime.runtime.lifecycle.container import Container
    from ociruntime.runtime.lifecycle.context import Context, ExecOptions
    from ociruntime.runtime.plan.plan import Plan
    from ociruntime.runtime.spec.config_types import Config, Process


def execute(context: Context, options: ExecOptions) -> int:
    """Run a program in a container; return its exit status, or 128+n if signal n killed it.

    With ``detach``, returns 0 as soon as the program runs.  Raises the errors of ``begin``.
    """
    if options.detach:
        begin(context, options)
        return 0
    from ociruntime.base.foreground import SignalQueue, open_relay, wait_foreground

    check_id(options.id)
    # Read the state before signals are caught: if its filesystem hangs, a signal still ends us.
    exists(f"{context.root}/{options.id}/state.json")
    # Catch signals before the program runs: from here on, they are forwarded to it.
    signals = SignalQueue()
    try:
        execution = begin(context, options, signals)
    except BaseException:
        signals.release()
        raise
    executor = execution.executor
    relay = open_relay(execution.master)
    return wait_foreground(executor.pidfd, executor.pid, relay, signals)


def begin(context: Context, options: ExecOptions, caught: SignalQueue | None = None) -> Execution:
    """Start a program in a container; write its pid file, and send its pidfd to ``pidfd_socket``.

    ``caught``: signals to forward to the program once it runs.  After an error, nothing is left
    behind.  Raises UsageError for an invalid id or option, ConfigError, NoSuchContainer,
    ContainerError, StepError and HostError.

    Does not lock the container.  Instead a pidfd pins the container's init, and each step detects
    whether the init has exited.
    """
    check_id(options.id)
    if not options.process_file and not options.args:
        raise UsageError("exec args cannot be empty", "pass COMMAND or --process FILE")
    if options.process_file and options.args:
        raise UsageError("exec: --process and COMMAND cannot be combined", "pass only one of them")
    if options.preserve_fds:
        # Do this before this process opens any file; _compile counts the sockets again.
        occupy_closed(options.preserve_fds, _sockets() if context.alone else 0)
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
        from ociruntime.runtime.cgroups.exec_cgroup import below

        cgroup = below(cgroup, options.cgroups)
    console = _console(options.console_socket)
    pidfd_receiver = _pidfd_receiver(options.pidfd_socket)
    if context.alone and caught is None:
        end_on_signals()
    init_fd = open_process(container.pid, container.started)
    if init_fd < 0:
        raise NotRunning(container.id)
    try:
        plan = _compile(context, options, container, config, process, init_fd)
        execution = Execution(
            container, cgroup, console, not options.cgroups, options.streams, caught
        )
        # In a frozen cgroup, the process would stop before its affinity is set, and block this one.
        born = status != PAUSED and not (process.get("execCPUAffinity") or {}).get("initial")
        try:
            execution.run(plan, init_fd, born)
            _announce(options, execution.executor, pidfd_receiver)
            if context.alone and caught is None:
                no_longer_end_on_signals()  # from here on, the command must not fail
        except BaseException:  # also KeyboardInterrupt, at any point while the program runs
            execution.abandon()
            raise
    finally:
        posix.close(init_fd)
    return execution


def _sockets() -> int:
    """Return how many sockets systemd has passed to this process (LISTEN_FDS)."""
    if b"LISTEN_FDS" not in posix.environ:
        return 0
    return activated(posix.environ, posix.getpid())[0]


def _check_status(container: Container, ignore_paused: bool) -> str:
    """Return the container's status.

    Raises ContainerError if the container is stopped, or if it is paused and ``ignore_paused`` is
    False.
    """
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
    """Connect to the console socket at ``path``, or return None if ``path`` is ""."""
    if not path:
        return None
    from ociruntime.base.stream_socket import connect

    return connect(path, "console socket")


def _pidfd_receiver(path: str) -> socket | None:
    if not path:
        return None
    from ociruntime.runtime.host.console_and_pidfd_sockets import connect_pidfd_socket

    return connect_pidfd_socket(path)


def _compile(
    context: Context,
    options: ExecOptions,
    container: Container,
    config: Config,
    process: Process,
    init_fd: int,
) -> Plan:
    try:
        apart = namespaces_apart(container.pid)
    except HostError as error:
        if error.errno in (ENOENT, ESRCH):  # the init is exiting
            raise NotRunning(container.id) from None
        raise
    # If the init has not exited, the pid was not reused while its namespaces were read.
    if await_end(init_fd, 0):
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
    if context.log.debugging:
        from ociruntime.runtime.plan.explain import operation_lines

        for line in operation_lines(plan.operations):
            context.log.debug(f"planned operation {' '.join(line.split())}")
    return plan


def _announce(options: ExecOptions, executor: Executor, pidfd_receiver: socket | None) -> None:
    """Send the program's pidfd to the receiver and write its pid file.  Raises HostError."""
    if pidfd_receiver is not None:
        from ociruntime.runtime.host.console_and_pidfd_sockets import EXEC, send_pidfd

        send_pidfd(pidfd_receiver, executor.pidfd, EXEC)
    if options.pid_file:
        from ociruntime.base.files import publish_file

        try:
            publish_file(options.pid_file, str(executor.pid).encode())
        except OSError as error:
            raise HostError(f'write the pid file "{options.pid_file}"', error) from None
