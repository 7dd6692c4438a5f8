"""``ocipod status``."""

from __future__ import annotations

from ociruntime.base.errors import PodError
from ociruntime.commandline.output import write, write_lines
from ociruntime.commandline.times import date
from ociruntime.pods.cli.durations import timeout
from ociruntime.pods.cli.list import networks
from ociruntime.pods.cli.uuids import given_uuid
from ociruntime.pods.store.description import RUNNING, describe
from ociruntime.pods.store.phases import open_pod
from ociruntime.pods.store.pod import GONE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ociruntime.commandline.parser import Arguments
    from ociruntime.pods.cli.context import Context
    from ociruntime.pods.store.pod import Pod


def run(context: Context, arguments: Arguments) -> int:
    """Wait if requested, then print the status as ``name=value`` lines or JSON."""
    until_end = timeout(arguments.text("wait"), "wait")
    until_ready = timeout(arguments.text("wait-ready"), "wait-ready")
    with open_pod(context.directory, given_uuid(arguments)) as pod:
        if until_ready or until_end:
            _wait(pod, until_ready, until_end)
        found = {"name": pod.uuid, "state": GONE} if pod.state == GONE else describe(pod)
    output_format = arguments.text("format")
    if output_format:
        from ociruntime.commandline.json_output import as_json

        return write(as_json(found, output_format))
    return write_lines(lines(found))


def _wait(pod: Pod, until_ready: float, until_end: float) -> None:
    from ociruntime.pods.store.description import wait_for_end, wait_until_ready

    if until_ready and not wait_until_ready(pod, until_ready):
        raise PodError(f"pod {pod.uuid} is not ready: it is {pod.state}")
    if until_end and not wait_for_end(pod, until_end):
        raise PodError(f"wait for pod {pod.uuid}: timeout: it is still {pod.state}")


def lines(pod: dict[str, Any]) -> list[str]:
    """Format a pod's status; exit codes of apps are shown only once the pod has stopped."""
    found = [f"state={pod['state']}"]
    for name in ("created", "started"):
        if f"{name}_at" in pod:
            found.append(f"{name}={date(pod[f'{name}_at'])}")
    if pod.get("networks"):
        found.append(f"networks={networks(pod)}")
    if "pid" in pod:
        found.append(f"pid={pod['pid']}")
    found.append(f"exited={'true' if pod.get('exited') else 'false'}")
    if pod["state"] != RUNNING:
        found += [
            f"app-{app['name']}={app['exit_code']}"
            for app in pod.get("apps", ())
            if "exit_code" in app
        ]
    return found
