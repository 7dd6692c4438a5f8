"""``ocipod monitor``: goes on as the monitor of a pod, which this process was before it slept."""

from __future__ import annotations

from ociruntime.base.errors import UsageError
from ociruntime.commandline.output import tell
from ociruntime.pods.store.pod import RUN, phase_path
from ociruntime.pods.supervisor.hibernation import wake_up
from ociruntime.pods.supervisor.supervise import Supervisor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.pods.cli.context import Context


def run(context: Context, arguments: Arguments) -> int:
    """The pod's exit code.  Raises RuntimeFailure: with this process the pod ends."""
    lock, noted = arguments.number("lock-fd", -1), arguments.number("resume-fd", -1)
    if lock < 0 or noted < 0:
        hint = "ocipod run, ocipod run-prepared, ocipod app sandbox"
        raise UsageError("a pod's monitor is started by who runs the pod", hint)
    frozen = wake_up(noted)
    uuid = arguments.positional[0]
    path = phase_path(context.directory, RUN, uuid)
    return Supervisor(path, uuid, lock, _warn, frozen).run()


def _warn(text: str) -> None:
    tell("ocipod", text)
