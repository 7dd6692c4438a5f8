"""``ocipod monitor``: resume a pod's monitor after hibernation, in the same process."""

from __future__ import annotations

from ociruntime.base.errors import UsageError
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import tell
from ociruntime.commandline.parser import Arguments
from ociruntime.pods.cli.context import Context
from ociruntime.pods.monitor.hibernation import load_snapshot
from ociruntime.pods.monitor.monitor import Monitor
from ociruntime.pods.store.pod import RUN, phase_path


def run(context: Context, arguments: Arguments) -> int:
    """Resume the pod's monitor in this process; return the pod's exit code.

    Raises RuntimeFailure if the monitor cannot be resumed; the pod then ends with this process.
    """
    lock, state_fd = arguments.number("lock-fd", -1), arguments.number("resume-fd", -1)
    if lock < 0 or state_fd < 0:
        hint = "use ocipod run, ocipod run-prepared or ocipod app sandbox"
        raise UsageError("monitor: internal command, cannot be run by hand", hint)
    snapshot = load_snapshot(state_fd)
    uuid = arguments.positional[0]
    path = phase_path(context.directory, RUN, uuid)
    return Monitor(path, uuid, lock, _warn, snapshot).run()


def _warn(text: str) -> None:
    tell("ocipod", text)


COMMANDS = (
    Command(
        "monitor UUID",
        "",
        run,
        options=(
            Option("lock-fd", value="N", kind="number"),
            Option("resume-fd", value="N", kind="number"),
        ),
    ),
)
