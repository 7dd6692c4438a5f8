"""`ociruntime kill ID [SIGNAL]`."""

from __future__ import annotations

from ociruntime.base.errors import ConfigError, UsageError
from ociruntime.commandline.signal_names import signal_number
from ociruntime.runtime.lifecycle.kill import kill, stop_signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.runtime.lifecycle.options import Context


def run(context: Context, arguments: Arguments) -> int:
    """Send the signal; silent."""
    container_id, *words = arguments.positional
    named = signal_number(words[0]) if words else None

    def send(found: str) -> None:
        signal = _signal_of(context, found) if named is None else named
        kill(context, found, signal, arguments.flag("all"))

    if not arguments.flag("regex"):
        send(container_id)
        return 0
    from ociruntime.runtime.lifecycle.matching import for_each_match

    for_each_match(context, container_id, send)
    return 0


def _signal_of(context: Context, container_id: str) -> int:
    """The one that the image wants (CFG-ANN-08)."""
    word = stop_signal(context, container_id)
    try:
        return signal_number(word)
    except UsageError as error:
        where = 'annotations["org.opencontainers.image.stopSignal"]'
        hint = f"name it: `ociruntime kill {container_id} SIGNAL`"
        raise ConfigError(where, error.message, hint) from None
