"""A container that is started with our streams, and as whom we end."""

from __future__ import annotations

from ociruntime.ocictl.connection import Connection, container

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments


def in_foreground(
    connection: Connection, ref: str, arguments: Arguments, *, stdin: bool
) -> int | None:
    """Start it and stay until it has ended: its exit status; None when the keys were typed.

    ``stdin``: it reads what we are given.  Raises UsageError, RuntimeFailure.
    """
    from ociruntime.host.detach_keys import DETACH_KEYS, parse_keys
    from ociruntime.ocictl.attachment import DETACHED, Attachment

    keys = parse_keys(arguments.text("detach-keys", DETACH_KEYS))
    streams = ("stdin", "stdout", "stderr") if stdin else ("stdout", "stderr")
    # Before the start: nothing that it writes is missed.
    attachment = Attachment(connection, ref, streams=streams, wait=True, keys=keys)
    try:
        connection.post(container(ref, "start"))
        status = attachment.run()
    finally:
        attachment.close()
    return None if status == DETACHED else status
