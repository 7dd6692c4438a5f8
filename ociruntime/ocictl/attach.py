"""``ocictl attach``."""

from __future__ import annotations

from ociruntime.host.detach_keys import DETACH_KEYS, parse_keys
from ociruntime.ocictl.attachment import DETACHED, Attachment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments
    from ociruntime.ocictl.connection import Connection


def run(connection: Connection, arguments: Arguments) -> int:
    """The container's exit code, 0 after the detach keys.  Raises RuntimeFailure."""
    keys = parse_keys(arguments.text("detach-keys", DETACH_KEYS))
    streams = ("stdout", "stderr") if arguments.flag("no-stdin") else ()
    attachment = Attachment(connection, arguments.positional[0], streams=streams, keys=keys)
    try:
        code = attachment.run()
    finally:
        attachment.close()
    return 0 if code == DETACHED else code
