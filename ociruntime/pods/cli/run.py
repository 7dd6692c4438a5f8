"""``ocipod run``: prepare a pod and become its monitor."""

from __future__ import annotations

from ociruntime.commandline.output import write
from ociruntime.pods.cli.preparation import prepared, read, save_uuid, warn
from ociruntime.pods.manifest.app_options import PREPARE_OPTIONS, RUN_OPTIONS, SAVED_OPTIONS
from ociruntime.pods.store.phases import to_run
from ociruntime.pods.supervisor.launch import be_monitor, start_monitor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.pods.cli.context import Context


def run(context: Context, args: list[str]) -> int:
    """Run a pod; return its exit code, or with --detach 0 once it is ready."""
    context, parsed = read(context, args, (*PREPARE_OPTIONS, *RUN_OPTIONS, *SAVED_OPTIONS))
    pod = prepared(context, parsed, runs=True)
    save_uuid(parsed.options, pod)
    to_run(pod)
    if not parsed.options.flag("detach"):
        return be_monitor(pod, warn)
    start_monitor(pod, warn)
    return write(f"{pod.uuid}\n")
