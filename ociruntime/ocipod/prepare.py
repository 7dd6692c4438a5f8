"""``ocipod prepare``."""

from __future__ import annotations

from ociruntime.cli.output import write
from ociruntime.ocipod.preparation import prepared, read
from ociruntime.pod.app_options import PREPARE_OPTIONS, PREPARED_OPTIONS
from ociruntime.pod.phases import to_prepared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.ocipod.context import Context


def run(context: Context, words: list[str]) -> int:
    """Prints the pod's UUID."""
    context, said = read(context, words, (*PREPARE_OPTIONS, *PREPARED_OPTIONS))
    with prepared(context, said, runs=False) as pod:
        to_prepared(pod)
        return write(f"{pod.uuid}\n")
