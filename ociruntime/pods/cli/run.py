"""``ocipod run``: a pod is prepared, and this process becomes its monitor."""

from __future__ import annotations

from ociruntime.commandline.output import write
from ociruntime.pods.cli.preparation import prepared, read, save_uuid, warn
from ociruntime.pods.manifest.app_options import PREPARE_OPTIONS, RUN_OPTIONS, SAVED_OPTIONS
from ociruntime.pods.store.phases import to_run
from ociruntime.pods.supervisor.launch import be_monitor, start_monitor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.pods.cli.context import Context


def run(context: Context, words: list[str]) -> int:
    """Ends with the exit code of the pod, or with --detach when it is ready."""
    context, said = read(context, words, (*PREPARE_OPTIONS, *RUN_OPTIONS, *SAVED_OPTIONS))
    pod = prepared(context, said, runs=True)
    save_uuid(said.options, pod)
    to_run(pod)
    if not said.options.flag("detach"):
        return be_monitor(pod, warn)
    start_monitor(pod, warn)
    return write(f"{pod.uuid}\n")
