"""``ocictl kill``."""

from __future__ import annotations

from ociruntime.base.errors import UsageError
from ociruntime.commandline.signal_names import signal_number
from ociruntime.manager.client.connection import Connection, container
from ociruntime.manager.client.each_reference import each

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """Send a signal to each container.  Raises UsageError."""
    signal = signal_number(arguments.text("signal", "KILL"))
    if signal == 0:
        hint = "use inspect to see whether a container is running"
        raise UsageError("--signal: 0 is not a signal", hint)
    body = {"signal": signal}
    return each(arguments.positional, lambda ref: connection.post(container(ref, "kill"), body))
