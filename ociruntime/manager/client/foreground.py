"""A container that is started with our streams, and as whom we end."""

from __future__ import annotations

from ociruntime.manager.client.connection import Connection, container

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.manager.client.attachment import Attachment


def in_foreground(
    connection: Connection, ref: str, arguments: Arguments, *, stdin: bool
) -> int | None:
    """Start it and stay until it has ended: its exit status; None when the keys were typed.

    ``stdin``: it reads what we are given.  Raises UsageError, RuntimeFailure.
    """
    return stay(started(connection, ref, arguments, stdin=stdin))


def started(connection: Connection, ref: str, arguments: Arguments, *, stdin: bool) -> Attachment:
    """Started, its streams with us from the beginning.  Raises as ``in_foreground``."""
    from ociruntime.base.detach_keys import DETACH_KEYS, parse_keys
    from ociruntime.manager.client.attachment import Attachment

    keys = parse_keys(arguments.text("detach-keys", DETACH_KEYS))
    streams = ("stdin", "stdout", "stderr") if stdin else ("stdout", "stderr")
    # Before the start: nothing that it writes is missed.
    attachment = Attachment(connection, ref, streams=streams, wait=True, keys=keys)
    try:
        connection.post(container(ref, "start"))
    except BaseException:
        attachment.close()
        raise
    return attachment


def stay(attachment: Attachment) -> int | None:
    """Until the container has ended.  Raises as ``in_foreground``."""
    from ociruntime.manager.client.attachment import DETACHED

    try:
        status = attachment.run()
    finally:
        attachment.close()
    return None if status == DETACHED else status
