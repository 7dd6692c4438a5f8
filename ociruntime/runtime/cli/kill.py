"""`ociruntime kill ID [SIGNAL]`: send a signal to a container."""

from __future__ import annotations

from ociruntime.base.errors import ConfigError, UsageError
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.parser import Arguments
from ociruntime.commandline.signal_names import signal_number
from ociruntime.runtime.lifecycle.context import Context
from ociruntime.runtime.lifecycle.kill import kill, stop_signal


def run(context: Context, arguments: Arguments) -> int:
    """Send a signal to a container or, with ``--regex``, to all containers with matching ids.

    Returns 0.
    """
    container_id, *signals = arguments.positional
    named = signal_number(signals[0]) if signals else None

    def send(match: str) -> None:
        signal = _signal_of(context, match) if named is None else named
        kill(context, match, signal, arguments.flag("all"))

    if not arguments.flag("regex"):
        send(container_id)
        return 0
    from ociruntime.runtime.lifecycle.select_by_regex import for_each_match

    for_each_match(context, container_id, send)
    return 0


def _signal_of(context: Context, container_id: str) -> int:
    """Return the container's stop signal (``org.opencontainers.image.stopSignal``), or SIGTERM.

    Raises ConfigError if the annotation is not a signal.
    """
    stop_signal_name = stop_signal(context, container_id)
    try:
        return signal_number(stop_signal_name)
    except UsageError as error:
        where = 'annotations["org.opencontainers.image.stopSignal"]'
        hint = f"name the signal: `ociruntime kill {container_id} SIGNAL`"
        raise ConfigError(where, error.message, hint) from None


COMMANDS = (
    Command(
        "kill ID [SIGNAL]",
        "send a signal to the init of a container",
        run,
        options=(
            Option(
                "all",
                "signal all processes; no error if stopped",
                short="a",
                details="All processes in the container's cgroup.",
            ),
            Option("regex", "match IDs: take ID as a regular expression", short="r"),
        ),
        details=(
            "SIGNAL is a number or a name, with or without SIG: 9, KILL, SIGTERM, SIGRTMIN+3.\n"
            "The default is the annotation org.opencontainers.image.stopSignal, or SIGTERM."
        ),
        examples=(
            ("Ask the program to terminate", "ociruntime kill web"),
            ("Kill every process", "ociruntime kill --all web KILL"),
        ),
    ),
)
