"""``ocipod list``."""

from __future__ import annotations

from ociruntime.commandline.columns import tabbed
from ociruntime.commandline.output import tell, write
from ociruntime.commandline.times import ago, date
from ociruntime.pods.store.description import try_describe
from ociruntime.pods.store.phases import each_pod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ociruntime.commandline.parser import Arguments
    from ociruntime.pods.cli.context import Context

_TITLES = ["UUID", "APP", "IMAGE NAME", "STATE", "CREATED", "STARTED", "NETWORKS"]
_SHORT = 8  # digits of a UUID
_SHORT_ID = 19  # characters of sha256:DIGEST


def run(context: Context, arguments: Arguments) -> int:
    """Print the pods; unreadable ones are reported on standard error at the end."""
    problems: list[str] = []
    found = []
    for pod in each_pod(context.directory, problems=problems):
        with pod:
            if (one := try_describe(pod, problems)) is not None:
                found.append(one)
    output_format = arguments.text("format")
    if output_format:
        from ociruntime.commandline.json_output import as_json

        status = write(as_json(found, output_format))
    else:
        full = arguments.flag("full")
        rows = [] if arguments.flag("no-legend") else [_titles(full)]
        status = write(tabbed(rows + [row for one in found for row in pod_rows(one, full)]))
    for line in problems:
        tell("ocipod", line)
    return status


def _titles(full: bool) -> list[str]:
    return [*_TITLES[:3], "IMAGE ID", *_TITLES[3:]] if full else list(_TITLES)


def pod_rows(pod: dict[str, Any], full: bool) -> list[list[str]]:
    """Return a row for each app of a pod; only the first has the pod's own cells."""
    form = date if full else ago
    uuid = pod["name"] if full else pod["name"][:_SHORT]
    of_pod = [pod["state"], form(pod.get("created_at")), form(pod.get("started_at")), networks(pod)]
    rows = []
    for app in pod["apps"] or [{}]:
        cells = [
            app.get("name", "-"),
            app.get("image_name") or app.get("image_id", "-")[:_SHORT_ID],
        ]
        if full:
            cells.append(app.get("image_id", "-"))
        rows.append([uuid, *cells, *of_pod])
        uuid, of_pod = "", [""] * len(of_pod)
    return rows


def networks(pod: dict[str, Any]) -> str:
    """Format a pod's networks as ``name:ip4=ADDRESS``, ``name:ip6=ADDRESS`` or ``name``."""
    parts = []
    for network in pod["networks"]:
        family = next((one for one in ("ip4", "ip6") if one in network), "")
        address = f":{family}={network[family]}" if family else ""
        parts.append(f"{network.get('name')}{address}")
    return ", ".join(parts)
