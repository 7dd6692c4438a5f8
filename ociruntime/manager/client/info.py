"""``ocictl info``."""

from __future__ import annotations

from ociruntime.commandline.output import write
from ociruntime.manager.client.connection import Connection, resource
from ociruntime.manager.client.forms import formatted, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """Print facts about the daemon, one per line.  Raises UsageError."""
    facts = connection.get(resource("info"))
    if form := arguments.text("format"):
        return write(formatted([facts], form))
    return write("".join(f"{name}: {text(value)}\n" for name, value in facts.items()))
