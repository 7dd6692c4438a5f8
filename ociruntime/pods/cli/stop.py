"""``ocipod stop``: stop running pods, or kill them with ``--force``."""

from __future__ import annotations

from ociruntime.base.errors import RuntimeFailure, UsageError
from ociruntime.commandline.output import tell, write
from ociruntime.pods.cli.uuids import given_uuids
from ociruntime.pods.operations.stopping import stop_pod
from ociruntime.pods.store.phases import open_pod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.pods.cli.context import Context

FAILED = 254


def run(context: Context, arguments: Arguments) -> int:
    """Stop each pod; return 254 if one could not be stopped.  Raises UsageError."""
    seconds = arguments.number("time", 10)
    if seconds < 0:
        raise UsageError("--time: must be a number of seconds, 0 or more")
    status = 0
    for uuid in given_uuids(arguments):
        try:
            with open_pod(context.directory, uuid) as pod:
                if stop_pod(pod, seconds, arguments.flag("force"), arguments.flag("wait")):
                    write(f'"{pod.uuid}"\n')
                else:
                    write(f'pod "{pod.uuid}" is already stopped\n')
        except RuntimeFailure as failure:
            tell("ocipod", str(failure))
            status = FAILED
    return status
