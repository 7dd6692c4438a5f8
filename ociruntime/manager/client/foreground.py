"""The foreground mode of ``run`` and ``start --attach``: our streams, and its exit status."""

from __future__ import annotations

from ociruntime.manager.client.connection import Connection, container

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.manager.client.attachment import Attachment


def in_foreground(
    connection: Connection, ref: str, arguments: Arguments, *, stdin: bool
) -> int | None:
    """Start a container and relay its streams; return its exit status, None on detach.

    ``stdin``: relay standard input, too.  Raises UsageError, RuntimeFailure.
    """
    return stay(started(connection, ref, arguments, stdin=stdin))


def started(connection: Connection, ref: str, arguments: Arguments, *, stdin: bool) -> Attachment:
    """Attach to a container, start it, and return the attachment.

    Raises UsageError, RuntimeFailure.
    """
    from ociruntime.base.terminal import DETACH_KEYS, parse_keys
    from ociruntime.manager.client.attachment import Attachment

    keys = parse_keys(arguments.text("detach-keys", DETACH_KEYS))
    streams = ("stdin", "stdout", "stderr") if stdin else ("stdout", "stderr")
    # Attach before the start, so that no output is missed.
    attachment = Attachment(connection, ref, streams=streams, wait=True, keys=keys)
    try:
        connection.post(container(ref, "start"))
    except BaseException:
        attachment.close()
        raise
    return attachment


def stay(attachment: Attachment) -> int | None:
    """Relay until the container exits; return its exit status, None on detach.

    Raises RuntimeFailure.
    """
    from ociruntime.manager.client.attachment import DETACHED

    try:
        status = attachment.run()
    finally:
        attachment.close()
    return None if status == DETACHED else status
