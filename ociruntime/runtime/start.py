"""`start`: let the created container become its program."""

from __future__ import annotations

import posix

from ociruntime.errors import ContainerError, HostError, StepError
from ociruntime.executor.protocol import go, receive
from ociruntime.host.gate import connect_gate, remove_gate
from ociruntime.plan.ops import MESSAGE_EXEC
from ociruntime.runtime.container import (
    CREATED,
    PAUSED,
    RUNNING,
    STOPPED,
    document,
    lock,
)
from ociruntime.runtime.identifier import check_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from ociruntime.executor.protocol import Message
    from ociruntime.runtime.container import Container
    from ociruntime.runtime.options import Context

REFUSALS = {
    RUNNING: "cannot start an already running container",
    PAUSED: "cannot start a container in the paused state",
    STOPPED: "cannot start a container that has stopped",
}


def start(context: Context, container_id: str, failure_fd: int = -1) -> None:
    """Start the program; when this returns, it runs and the poststart hooks have.

    ``failure_fd``: the native `start` (csrc/entry/start.c) has tried it, and the file holds what
    came from the container instead.  Raises UsageError, NoSuchContainer, ContainerError,
    StepError, HookError, HostError.
    """
    check_id(container_id)
    container, held = lock(context.root, container_id)
    try:
        if failure_fd >= 0:
            _report_told(context, container, failure_fd)
        start_locked(context, container)
    finally:
        held.release()


def start_locked(context: Context, container: Container) -> None:
    """As ``start``, for a caller that holds the lock."""
    status = container.status()
    if status != CREATED:
        raise ContainerError(f'{REFUSALS[status]}: "{container.id}"')
    if not container.facts["startSteps"]:
        raise ContainerError(
            f'cannot start "{container.id}": its config.json has no process',
            "the process property must be set",
        )
    failed = _open_gate(container)
    if failed is not None:
        _report(context, container, failed)
    try:
        remove_gate(container.directory)
    except OSError as error:
        raise HostError(f"remove the start gate in {container.directory}", error) from None
    _run_poststart(context, container)


def _open_gate(container: Container) -> Message | None:
    """Send GO and wait for the exec; the failure instead of it, if any.

    Raises StepError if the process ends without a word.
    """
    connection = connect_gate(container.directory)
    if connection is None or not go(connection):
        raise StepError(f'container process is already dead: "{container.id}"')
    announced = False
    while (message := receive(connection)) is not None:
        if message.kind != MESSAGE_EXEC:
            return message
        announced = True
    connection.close()
    if not announced:
        raise _ended_silently(container)
    return None


def _ended_silently(container: Container) -> StepError:
    return StepError(
        f'the first process of "{container.id}" was killed before it became the program',
        "linux.resources.memory.limit may be too low",
    )


def _report_told(context: Context, container: Container, fd: int) -> NoReturn:
    """Raise what the message in the file means; an empty file is an end without a word."""
    from ociruntime.executor.protocol import LONG, SHORT, Message

    try:
        data = posix.read(fd, LONG.size)
        posix.close(fd)
    except OSError as error:
        raise HostError(f"read descriptor {fd}", error) from None
    if len(data) < SHORT.size:
        raise _ended_silently(container)
    _report(context, container, Message(data))


def _report(context: Context, container: Container, message: Message) -> NoReturn:
    """Raise what the failure means; a failed hook takes the container with it (RT-LIFE-12)."""
    from ociruntime.errors import HookError
    from ociruntime.executor.failure import failure
    from ociruntime.plan.plan import Operation

    steps = {
        index: Operation(code, (), where) for index, code, where in container.facts["startSteps"]
    }
    error = failure(steps.get(message.value), message)
    if isinstance(error, HookError):
        _destroy(context, container)
    raise error


def _run_poststart(context: Context, container: Container) -> None:
    hooks = container.facts["hooks"].get("poststart")
    if not hooks:
        return
    from ociruntime.errors import RuntimeFailure
    from ociruntime.host.hooks import run_host_hooks
    from ociruntime.spec.json_text import dump

    container.enter_bundle()
    status = RUNNING if container.alive() else STOPPED
    state = dump(document(container, status))
    try:
        run_host_hooks("poststart", hooks, state, context.log.debug)
    except RuntimeFailure:
        _destroy(context, container)
        raise


def _destroy(context: Context, container: Container) -> None:
    from ociruntime.runtime.delete import destroy

    destroy(context, container)
