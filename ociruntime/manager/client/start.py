"""``ocictl start``."""

from __future__ import annotations

from ociruntime.base.errors import UsageError
from ociruntime.manager.client.connection import Connection, container
from ociruntime.manager.client.each_reference import each

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """Start containers; with ``--attach``, relay the container's streams.  Raises UsageError."""
    refs = arguments.positional
    if not (arguments.flag("attach") or arguments.flag("interactive")):
        return each(refs, lambda ref: connection.post(container(ref, "start")))
    if len(refs) > 1:
        raise UsageError("--attach: only one container can be attached", "start the others first")
    from ociruntime.manager.client.foreground import in_foreground

    stdin = arguments.flag("interactive")
    return in_foreground(connection, refs[0], arguments, stdin=stdin) or 0
