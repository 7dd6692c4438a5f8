"""`start`: let a created container execute its program; its fast path is csrc/fast_path/start.c."""

from __future__ import annotations

import posix
from select import POLLIN, poll

from ociruntime.base.errors import ContainerError, HostError, StepError
from ociruntime.base.process import await_end, open_process
from ociruntime.runtime.executor.protocol import go, receive
from ociruntime.runtime.host.start_gate import NAME, connect_gate, remove_gate
from ociruntime.runtime.lifecycle.container import CREATED, PAUSED, RUNNING, STOPPED, document, lock
from ociruntime.runtime.lifecycle.container_id import check_id
from ociruntime.runtime.plan.operation_table import MESSAGE_EXEC, MESSAGE_FAILURE, MESSAGE_LISTENER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from socket import socket
    from typing import NoReturn

    from ociruntime.base.notify_socket import NotifyRelay
    from ociruntime.runtime.executor.protocol import Message
    from ociruntime.runtime.host.seccomp_agent import SeccompAgent
    from ociruntime.runtime.lifecycle.container import Container
    from ociruntime.runtime.lifecycle.context import Context

EXEC_MILLISECONDS = 10_000
END_SECONDS = 1
REFUSALS = {
    RUNNING: "cannot start an already running container",
    PAUSED: "cannot start a container in the paused state",
    STOPPED: "cannot start a container that has stopped",
}


def start(context: Context, container_id: str, failure_fd: int = -1) -> None:
    """Start the container's program; return when it runs and the poststart hooks have finished.

    With NOTIFY_SOCKET in the environment, also wait until the program sends READY=1 or exits.

    ``failure_fd``: a file with a FAILURE message that the fast path (csrc/fast_path/start.c) has
    received from the executor; this function only reports it.  Raises UsageError for an invalid id
    or NOTIFY_SOCKET, NoSuchContainer, ContainerError, StepError, HookError and HostError.
    """
    check_id(container_id)
    container, held = lock(context.root, container_id)
    try:
        if failure_fd >= 0:
            _report_from_file(context, container, failure_fd)
        notifying = start_locked(context, container, container.pid)
    finally:
        held.release()
    if notifying is not None:
        from ociruntime.runtime.lifecycle.container_notify_socket import await_ready

        await_ready(container, notifying)


def start_locked(
    context: Context, container: Container, main_pid: int, *, deletes: bool = True
) -> NotifyRelay | None:
    """Start a container that the caller has locked; return the notify relay for the caller to run.

    Returns None if there is nothing to relay.  ``main_pid``: the process that the service manager
    should watch (MAINPID).  ``deletes``: delete the container if a hook fails.  Raises the errors
    of ``start``.
    """
    status = container.status()
    if status != CREATED:
        raise ContainerError(f'{REFUSALS[status]}: "{container.id}"')
    if not container.facts["startSteps"]:
        raise ContainerError(
            f'cannot start container "{container.id}": its config.json has no process',
            "set process in config.json and create the container again",
        )
    notifying = None
    if container.facts["notified"] and context.alone:
        from ociruntime.runtime.lifecycle.container_notify_socket import open_relay

        notifying = open_relay(container, main_pid)
    context.mark("open the start gate, wait for the program")
    failed = _open_gate(container)
    if failed is not None:
        _report(context, container, failed, deletes=deletes)
    try:
        remove_gate(container.directory)
    except OSError as error:
        raise HostError(f'remove the socket "{container.directory}/{NAME}"', error) from None
    context.mark("finish the start")
    _run_poststart(context, container, deletes=deletes)
    return notifying


def _open_gate(container: Container) -> Message | None:
    """Let the init continue, and wait until it executes the program.

    Returns None if the program runs, or else the FAILURE message.  Raises StepError if the init
    exits without a message.  Raises HostError if the seccomp agent does not listen; the container
    then remains in the status ``created``.
    """
    agent = container.seccomp_agent()
    connection = connect_gate(container.directory)
    if connection is None:
        raise _already_dead(container)
    try:
        return _converse(container, agent, connection)
    finally:
        connection.close()  # after an error, the executor exits at end of file


def _converse(
    container: Container, agent: SeccompAgent | None, connection: socket
) -> Message | None:
    pidfd = open_process(container.pid, container.started)
    if pidfd < 0:
        raise _already_dead(container)
    try:
        if not go(connection):
            raise _already_dead(container)
        return _await_exec(container, agent, connection, pidfd)
    finally:
        posix.close(pidfd)


def _await_exec(
    container: Container, agent: SeccompAgent | None, connection: socket, pidfd: int
) -> Message | None:
    """Wait until the init, which may now continue, executes the program.

    Returns None if the program runs, or else the FAILURE message.  Raises StepError if the init
    exits without a message, and HostError.

    After execve(2) there should be an end of file.  It may never arrive, because a process that has
    traced the init may hold a duplicate of the init's end of the connection.  Therefore the init's
    exit counts as end of file, and so does a timeout after the message EXEC (csrc/fast_path/start.c
    does the same).
    """
    message = _next(container, connection, pidfd, None)
    if message is not None and message.kind == MESSAGE_LISTENER and agent is not None:
        _hand_on(container, agent, message)
        go(connection)
        message = _next(container, connection, pidfd, None)
    if message is None:
        raise _ended_silently(container)
    if message.kind != MESSAGE_EXEC:
        return message
    # Read only one more message: a process that traces the init could send any number.
    message = _next(container, connection, pidfd, EXEC_MILLISECONDS)
    if message is None or message.kind == MESSAGE_FAILURE:
        return message
    message.close_descriptor()
    return None


def _next(
    container: Container, connection: socket, pidfd: int, milliseconds: int | None
) -> Message | None:
    """Wait for a message; return None at end of file, on timeout, or when the init exits.

    Raises HostError.
    """
    poller = poll()
    poller.register(connection.fileno(), POLLIN)
    poller.register(pidfd, POLLIN)
    try:
        ready = [fd for fd, _ in poller.poll(milliseconds)]
    except OSError as error:
        raise HostError(f'start container "{container.id}": wait for its init', error) from None
    return receive(connection) if connection.fileno() in ready else None


def _already_dead(container: Container) -> StepError:
    """Return the error, in runc's words, for an init that exited before `start` reached it."""
    return StepError(f'container process is already dead: "{container.id}"')


def _hand_on(container: Container, agent: SeccompAgent, message: Message) -> None:
    """Send the seccomp listener to the agent before the program makes its first system call.

    Raises StepError if the message contains no listener, and HostError if the agent is unreachable.
    """
    from ociruntime.runtime.executor.protocol import check_listener

    try:
        check_listener(message)
        # the program does not run yet, although `create` has returned.
        agent.hand_on(message.fd, container.pid, document(container, "creating"))
    finally:
        message.close_descriptor()


def _ended_silently(container: Container) -> StepError:
    """Wait until the killed init is a zombie; return the error for its exit without a message."""
    # Wait, because a dying process closes its files before it becomes a zombie: after this error,
    # `state` must not report a running container.
    pidfd = open_process(container.pid, container.started)
    if pidfd >= 0:
        await_end(pidfd, END_SECONDS)
        posix.close(pidfd)
    return StepError(
        f'start container "{container.id}": its init was killed before it executed the program',
        "linux.resources.memory.limit may be too low",
    )


def _report_from_file(context: Context, container: Container, fd: int) -> NoReturn:
    """Raise the error that the FAILURE message in the file ``fd`` describes.

    An empty file means that the init sent no message before it exited.
    """
    from ociruntime.runtime.executor.protocol import LONG, SHORT, Message

    try:
        data = posix.read(fd, LONG.size)
        posix.close(fd)
    except OSError as error:
        raise HostError(f"read --failure-fd {fd}", error) from None
    if len(data) < SHORT.size:
        raise _ended_silently(container)
    _report(context, container, Message(data), deletes=True)


def _report(context: Context, container: Container, message: Message, *, deletes: bool) -> NoReturn:
    """Raise the error that a FAILURE message describes.

    ``deletes``: if a hook has failed, delete the container first.
    """
    # RT-LIFE-12
    from ociruntime.base.errors import HookError
    from ociruntime.runtime.executor.failure_messages import failure
    from ociruntime.runtime.executor.protocol import unexpected
    from ociruntime.runtime.plan.plan import Operation

    if message.kind != MESSAGE_FAILURE:
        message.close_descriptor()
        raise unexpected(message)
    steps = {
        index: Operation(code, (), where) for index, code, where in container.facts["startSteps"]
    }
    error = failure(steps.get(message.value), message)
    if isinstance(error, HookError) and deletes:
        _destroy(context, container)
    raise error


def _run_poststart(context: Context, container: Container, *, deletes: bool) -> None:
    """Run the poststart hooks; raise the error of the first hook that fails.

    ``deletes``: delete the container before raising the error.
    """
    hooks = container.facts["hooks"].get("poststart")
    if not hooks:
        return
    context.mark("run poststart hooks")
    from ociruntime.base.errors import RuntimeFailure
    from ociruntime.base.json_text import dump
    from ociruntime.runtime.host.hooks import run_host_hooks
    from ociruntime.runtime.spec.annotations import hook_outputs

    container.enter_bundle()
    status = RUNNING if container.alive() else STOPPED
    state = dump(document(container, status))
    try:
        outputs = hook_outputs(container.annotations)
        run_host_hooks("poststart", hooks, state, context.log.debug, outputs, context.alone)
    except RuntimeFailure:
        if deletes:
            _destroy(context, container)
        raise


def _destroy(context: Context, container: Container) -> None:
    from ociruntime.runtime.lifecycle.delete import destroy

    destroy(context, container)
