"""``ocipod rm``."""

from __future__ import annotations

from ociruntime.base.errors import RuntimeFailure
from ociruntime.commandline.output import tell, write
from ociruntime.pods.cli.uuids import given_uuids
from ociruntime.pods.garbage import garbage
from ociruntime.pods.store.phases import open_pod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.pods.cli.context import Context

_FAILED = 254


def run(context: Context, arguments: Arguments) -> int:
    """Remove each pod; an error with one is printed, and the others are still removed."""
    status = 0
    for given in given_uuids(arguments):
        try:
            problems = _remove(context.directory, given)
        except RuntimeFailure as failure:
            problems = [str(failure)]
            status = _FAILED
        for problem in problems:
            tell("ocipod", problem)
    return status


def _remove(directory: str, given: str) -> list[str]:
    with open_pod(directory, given) as pod:
        events = list(garbage.discard(pod))
        write(f'"{pod.uuid}"\n')
        return [f"pod {uuid}: {text}" for kind, uuid, text in events if kind == garbage.PROBLEM]
