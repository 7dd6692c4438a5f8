"""``ocictl start``."""

from __future__ import annotations

from ociruntime.errors import UsageError
from ociruntime.ocictl.connection import Connection, container
from ociruntime.ocictl.several import each

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """With ``--attach`` the container's streams are ours.  Raises UsageError."""
    refs = arguments.positional
    if not (arguments.flag("attach") or arguments.flag("interactive")):
        return each(refs, lambda ref: connection.post(container(ref, "start")))
    if len(refs) > 1:
        raise UsageError("--attach is about one container", "start the others apart")
    from ociruntime.ocictl.foreground import in_foreground

    stdin = arguments.flag("interactive")
    return in_foreground(connection, refs[0], arguments, stdin=stdin) or 0
