"""The commands `pause` and `resume`."""

from __future__ import annotations

from ociruntime.commandline.options import Command
from ociruntime.commandline.parser import Arguments
from ociruntime.runtime.lifecycle.context import Context
from ociruntime.runtime.lifecycle.pause import pause, resume


def run_pause(context: Context, arguments: Arguments) -> int:
    """Pause all processes of a container."""
    pause(context, arguments.positional[0])
    return 0


def run_resume(context: Context, arguments: Arguments) -> int:
    """Resume all processes of a container."""
    resume(context, arguments.positional[0])
    return 0


COMMANDS = (
    Command(
        "pause ID",
        "suspend all processes of a container",
        run_pause,
        details="Pausing a paused container is not an error.",
        examples=(("Suspend all processes", "ociruntime pause web"),),
    ),
    Command(
        "resume ID",
        "resume a paused container",
        run_resume,
        details="Resuming a running container is not an error.",
        examples=(("Resume them", "ociruntime resume web"),),
    ),
)
