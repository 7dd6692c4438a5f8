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
    """Run a container; return its exit status, or 0 with ``--detach``.  Raises UsageError."""
    detach = arguments.flag("detach")
    if arguments.flag("tty") and not arguments.flag("interactive") and not detach:
        raise UsageError("--tty: requires --interactive or --detach", "use -it")
    container_id = created(connection, arguments)["id"]
    try:
        attachment = _started(connection, container_id, arguments)
    except DaemonError:
        # The container never ran, so --rm would never take effect by itself.
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
        # The daemon removes it; wait for that, so that the next command does not find it.
        _try(connection.post, container(container_id, "wait"), {"condition": "removed"})
    return status


def _started(connection: Connection, container_id: str, arguments: Arguments) -> Attachment | None:
    """Start the container; return its attachment, None with ``--detach``."""
    if arguments.flag("detach"):
        connection.post(container(container_id, "start"))
        return None
    from ociruntime.manager.client.foreground import started

    return started(connection, container_id, arguments, stdin=arguments.flag("interactive"))


def _try(act: Callable[..., object], *args: object) -> None:
    """Call ``act``, ignoring a failure: the container may be gone, and its result matters more."""
    try:
        act(*args)
    except RuntimeFailure:
        return
