"""``ocictl attach``."""

from __future__ import annotations

from ociruntime.base.terminal import DETACH_KEYS, parse_keys
from ociruntime.manager.client.attachment import DETACHED, Attachment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.manager.client.connection import Connection


def run(connection: Connection, arguments: Arguments) -> int:
    """Attach; return the container's exit code, or 0 on detach.  Raises RuntimeFailure."""
    keys = parse_keys(arguments.text("detach-keys", DETACH_KEYS))
    streams = ("stdout", "stderr") if arguments.flag("no-stdin") else ()
    attachment = Attachment(connection, arguments.positional[0], streams=streams, keys=keys)
    try:
        code = attachment.run()
    finally:
        attachment.close()
    return 0 if code == DETACHED else code
