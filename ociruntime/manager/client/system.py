"""The commands ``info``, ``version``, ``system df``, ``system prune`` and ``pod ...``."""

from __future__ import annotations

from typing import Any

from ociruntime import __version__
from ociruntime.base.errors import RuntimeFailure
from ociruntime.base.log import plain
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import write
from ociruntime.commandline.parser import Arguments
from ociruntime.commandline.progress import amount
from ociruntime.commandline.tables_and_times import ago, aligned, tabbed
from ociruntime.manager.client.connection import Connection, resource
from ociruntime.manager.client.containers import (
    FAILED,
    each,
    is_confirmed,
    print_failure,
    stop_timeout,
)
from ociruntime.manager.client.format_option import chosen, formatted
from ociruntime.manager.client.images import UNNAMED, UNUSED
from ociruntime.manager.client.options import FORCE, FORMAT, INSPECT_FORMAT, NO_LEGEND, QUIET
from ociruntime.manager.client.refused_options import refused
from ociruntime.manager.client.template_functions import Shape, displayed

_TITLES = ["UUID", "STATE", "CREATED", "APPS", "CONTAINER"]


def run_pod_ls(connection: Connection, arguments: Arguments) -> int:
    """Print a table of all pods.

    Raises UsageError for an invalid option.
    """
    pods = connection.get(resource("pods"))
    if form := chosen(arguments):
        return write(formatted(pods, form))
    if arguments.flag("quiet"):
        return write("".join(f"{pod['id']}\n" for pod in pods))
    rows = [] if arguments.flag("no-legend") else [_TITLES]
    for pod in pods:
        apps = plain(", ".join(pod["apps"])) or "-"
        container = pod["container"] or "-"
        rows.append([pod["id"], pod["state"], ago(pod["created_at"]), apps, container[:12]])
    return write(tabbed(rows))


def run_pod_stop(connection: Connection, arguments: Arguments) -> int:
    """Stop pods, wait for their exit, and print the given UUIDs."""
    body = stop_timeout(arguments)
    return each(
        arguments.positional, lambda uuid: connection.post(resource("pods", uuid, "stop"), body)
    )


def run_pod_rm(connection: Connection, arguments: Arguments) -> int:
    """Remove pods and print the given UUIDs."""
    return each(arguments.positional, lambda uuid: connection.delete(resource("pods", uuid)))


def run_info(connection: Connection, arguments: Arguments) -> int:
    """Print the daemon's and the host's properties, one per line.

    Raises UsageError for an invalid option.
    """
    facts = connection.get(resource("info"))
    if form := chosen(arguments):
        return write(formatted([facts if form == "json" else _info_shape(facts)], form))
    return write("".join(f"{name}: {displayed(value)}\n" for name, value in facts.items()))


def _info_shape(facts: dict[str, Any]) -> Shape:
    """Return the daemon's properties as data for ``--format``, with docker's field names."""
    members = {
        "ServerVersion": facts["version"],
        "Containers": facts["containers"],
        "ContainersRunning": facts["running"],
        "ContainersPaused": facts["paused"],
        "ContainersStopped": facts["stopped"],
        "Name": facts["host"],
        "NCPU": facts["processors"],
        "MemTotal": facts["memory"],
        "DockerRootDir": facts["root"],
        "DefaultRuntime": facts["runtime"],
        "OSType": "linux",
    }
    return Shape(members, facts)


def _version_shape(facts: dict[str, str]) -> Shape:
    """Return the versions of ocictl and ocid as data for ``--format``, with docker's field names.

    ``Server`` is None if ocid is not running.
    """
    members: dict[str, Any] = {"Client": {"Version": facts["ocictl"], "Os": "linux"}}
    members["Server"] = None
    if "ocid" in facts:
        members["Server"] = {
            "Version": facts["ocid"],
            "ApiVersion": facts["api"],
            "KernelVersion": facts["Linux"],
            "Os": "linux",
        }
    return Shape(members, dict(facts))


_SPACE_TITLES = ["TYPE", "TOTAL", "ACTIVE", "SIZE", "RECLAIMABLE"]
_SPACE_NAMES = {"images": "Images", "containers": "Containers", "volumes": "Local Volumes"}


def run_system_df(connection: Connection, arguments: Arguments) -> int:
    """Print a table of the disk usage of images, containers and volumes.

    Raises UsageError for an invalid option.
    """
    summaries = connection.get(resource("system", "df"))
    rows = []
    for kind, summary in summaries.items():
        share = f" ({100 * summary['reclaimable'] // summary['size']}%)" if summary["size"] else ""
        members = {
            "Type": _SPACE_NAMES.get(kind, kind),
            "TotalCount": str(summary["count"]),
            "Active": str(summary["active"]),
            "Size": amount(summary["size"]),
            "Reclaimable": f"{amount(summary['reclaimable'])}{share}",
        }
        rows.append(Shape(members, {"kind": kind, **summary}))
    if form := chosen(arguments):
        shown = [summaries] if form == "json" else rows
        return write(formatted(shown, form, {"TotalCount": "TOTAL"}))
    return write(aligned([_SPACE_TITLES, *(list(row.values()) for row in rows)], gap=2))


def run_version(connection: Connection, arguments: Arguments) -> int:
    """Print the versions of ocictl and ocid; return 1 if ocid is not running.

    Raises UsageError for an invalid option.
    """
    facts = {"ocictl": __version__}
    status = 0
    try:
        facts.update(connection.get(resource("version")))
    except RuntimeFailure as failure:
        print_failure(failure)
        status = FAILED
    if form := chosen(arguments):
        return (
            write(formatted([facts if form == "json" else _version_shape(facts)], form)) or status
        )
    return write("".join(f"{name}: {value}\n" for name, value in facts.items())) or status


_FORMAT = (INSPECT_FORMAT,)


def run_system_prune(connection: Connection, arguments: Arguments) -> int:
    """Remove stopped containers, unused networks and images; print what was removed.

    Removes only images without a name; with ``--all``, all images that no container uses.  With
    ``--volumes``, also removes anonymous volumes that no container uses.
    """
    whole, volumes = arguments.flag("all"), arguments.flag("volumes")
    kinds = ["stopped containers", "unused networks", UNUSED if whole else UNNAMED]
    kinds += ["anonymous volumes that no container uses"] if volumes else []
    if not is_confirmed(arguments, f"Remove all {', all '.join(kinds)}?"):
        return 0
    # Containers first: networks, volumes and images that they use are not removed.
    answers = {
        "Containers": _prune(connection, "containers"),
        "Networks": _prune(connection, "networks"),
        "Volumes": _prune(connection, "volumes") if volumes else {"removed": []},
        "Images": _prune(connection, "images", {"all": whole}),
    }
    parts = [
        f"Deleted {title}:\n" + "".join(f"{name}\n" for name in answer["removed"]) + "\n"
        for title, answer in answers.items()
        if answer["removed"]
    ]
    freed = sum(answer.get("freed", 0) + answer.get("space", 0) for answer in answers.values())
    return write(f"{''.join(parts)}Total reclaimed space: {amount(freed)}\n")


def _prune(connection: Connection, kind: str, body: object = None) -> dict[str, Any]:
    answer: dict[str, Any] = connection.post(resource(kind, "prune"), body)
    return answer


COMMANDS = (
    Command(
        "system df",
        "show the disk space that images, containers and volumes use",
        run_system_df,
        options=(FORMAT, *refused("system df")),
        details="RECLAIMABLE: space of unused images and volumes, and of stopped containers.",
    ),
    Command(
        "pod ls",
        "list pods, including those of ocipod",
        run_pod_ls,
        options=(QUIET, NO_LEGEND, FORMAT),
    ),
    Command(
        "pod stop UUID...",
        "stop running pods",
        run_pod_stop,
        options=(
            Option(
                "time", "timeout before SIGKILL (default: 10)", "SECONDS", kind="number", short="t"
            ),
        ),
    ),
    Command("pod rm UUID...", "remove stopped pods", run_pod_rm),
    Command(
        "info",
        "show information about the daemon and its host",
        run_info,
        options=(INSPECT_FORMAT,),
    ),
    Command(
        "version", "print the versions of ocictl and ocid", run_version, options=(INSPECT_FORMAT,)
    ),
    Command(
        "system prune",
        "remove stopped containers, unused networks and images",
        run_system_prune,
        options=(
            Option("all", "also remove unused images with a name", short="a"),
            Option("volumes", "also remove anonymous volumes"),
            FORCE,
            *refused("system prune"),
        ),
        details=(
            "Removes containers that are stopped or were never started, unused networks\n"
            "created with `network create`, and unused images without a name."
        ),
    ),
)
