"""``ocictl run``."""

from __future__ import annotations

from ociruntime.base.errors import RuntimeFailure, UsageError
from ociruntime.commandline.output import write
from ociruntime.manager.client.connection import Connection, DaemonError, container
from ociruntime.manager.client.new_container import created

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ociruntime.commandline.parser import Arguments
    from ociruntime.manager.client.attachment import Attachment


def run(connection: Connection, arguments: Arguments) -> int:
    """The container's exit status, or 0 with ``--detach``.  Raises UsageError."""
    detach = arguments.flag("detach")
    if arguments.flag("tty") and not arguments.flag("interactive") and not detach:
        raise UsageError("a terminal takes input as well", "-it")
    container_id = created(connection, arguments)["id"]
    try:
        attachment = _started(connection, container_id, arguments)
    except DaemonError:
        # One that could not be started is nobody's, if it was to be removed anyway.
        if arguments.flag("rm"):
            _try(connection.delete, container(container_id, force=True))
        raise
    if attachment is None:
        return write(f"{container_id}\n")
    from ociruntime.manager.client.foreground import stay

    status = stay(attachment)
    if status is None:
        return 0
    if arguments.flag("rm"):
        # It removes itself: whoever comes next is not to find it any more.
        _try(connection.post, container(container_id, "wait"), {"condition": "removed"})
    return status


def _started(connection: Connection, container_id: str, arguments: Arguments) -> Attachment | None:
    """None if it is in the background."""
    if arguments.flag("detach"):
        connection.post(container(container_id, "start"))
        return None
    from ociruntime.manager.client.foreground import started

    return started(connection, container_id, arguments, stdin=arguments.flag("interactive"))


def _try(act: Callable[..., object], *words: object) -> None:
    """It may have gone meanwhile; what is told is how the container ended."""
    try:
        act(*words)
    except RuntimeFailure:
        return
