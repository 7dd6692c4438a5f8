"""``ocipod app sandbox``: run a pod without apps, to which apps can be added."""

from __future__ import annotations

from ociruntime.commandline.output import write
from ociruntime.pods.cli.preparation import (
    check_networks,
    check_root,
    host_of,
    save_uuid,
    values_of,
    warn,
)
from ociruntime.pods.operations.sandbox import make_sandbox, settings_of
from ociruntime.pods.store.phases import to_run
from ociruntime.pods.supervisor.launch import be_monitor, start_monitor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.pods.cli.context import Context


def run(context: Context, arguments: Arguments) -> int:
    """Run the pod and print its UUID once it is ready; become its monitor without --detach."""
    values = values_of(arguments)
    host = host_of(context)
    check_networks(context, settings_of(host, values, "")["net"])
    check_root()
    pod = make_sandbox(host, values)
    uuid = pod.uuid
    save_uuid(values, pod)
    to_run(pod)
    if not values.flag("detach"):
        return be_monitor(pod, warn, lambda: _print(uuid))
    start_monitor(pod, warn)
    return _print(uuid)


def _print(uuid: str) -> int:
    return write(f"{uuid}\n")
