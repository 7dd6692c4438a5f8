"""``ocipod prepare``."""

from __future__ import annotations

from ociruntime.commandline.output import write
from ociruntime.pods.cli.preparation import prepared, read
from ociruntime.pods.manifest.app_options import PREPARE_OPTIONS, PREPARED_OPTIONS
from ociruntime.pods.store.phases import to_prepared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.pods.cli.context import Context


def run(context: Context, args: list[str]) -> int:
    """Prepare a pod and print its UUID."""
    context, parsed = read(context, args, (*PREPARE_OPTIONS, *PREPARED_OPTIONS))
    with prepared(context, parsed, runs=False) as pod:
        to_prepared(pod)
        return write(f"{pod.uuid}\n")
