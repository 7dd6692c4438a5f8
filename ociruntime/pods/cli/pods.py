"""Commands on pods: ``list``, ``status``, ``rm``, ``gc``, ``cat-manifest``, ``stop``."""

from __future__ import annotations

import os
import platform
from typing import Any

from ociruntime import __version__
from ociruntime.base.errors import HostError, PodError, RuntimeFailure, UsageError
from ociruntime.base.log import plain
from ociruntime.commandline.durations import period, timeout
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import tell, write, write_lines
from ociruntime.commandline.parser import Arguments
from ociruntime.commandline.progress import amount
from ociruntime.commandline.tables_and_times import ago, as_json, date, tabbed
from ociruntime.pods.cli.context import Context
from ociruntime.pods.cli.options import FORMAT, TIME, UUID_FILE
from ociruntime.pods.garbage import garbage_collection
from ociruntime.pods.operations.stop_pod import stop_pod
from ociruntime.pods.store.manifest_file import read_manifest
from ociruntime.pods.store.phases import each_pod, open_pod
from ociruntime.pods.store.pod import GONE, Pod
from ociruntime.pods.store.pod_status import (
    RUNNING,
    describe,
    try_describe,
    wait_for_end,
    wait_until_ready,
)


def given_uuid(arguments: Arguments) -> str:
    """Return the UUID that is given as an argument or in the file of --uuid-file.

    Raises UsageError unless exactly one of the two is given, HostError if the file cannot be read.
    """
    return given_uuids(arguments)[0]


def given_uuids(arguments: Arguments) -> list[str]:
    """Return the UUIDs that are given as arguments, or the UUID in the file of --uuid-file.

    Raises UsageError unless exactly one of the two is given, HostError if the file cannot be read.
    """
    file = arguments.text("uuid-file")
    if not file:
        if not arguments.positional:
            raise UsageError("a pod is required", "pass a UUID or --uuid-file=FILE")
        return arguments.positional
    if arguments.positional:
        raise UsageError("a UUID and --uuid-file cannot be combined", "pass only one of them")
    try:
        with open(file, encoding="utf-8", errors="replace") as stream:
            return [stream.read().strip()]
    except OSError as error:
        raise HostError(f'--uuid-file: read "{file}"', error) from None


_TITLES = ["UUID", "APP", "IMAGE NAME", "STATE", "CREATED", "STARTED", "NETWORKS"]
_SHORT = 8  # digits of a UUID
_SHORT_ID = 19  # characters of sha256:DIGEST


def run_list(context: Context, arguments: Arguments) -> int:
    """Print the pods as a table or JSON; then print errors about unreadable pods to stderr."""
    problems: list[str] = []
    pods = []
    for pod in each_pod(context.directory, problems=problems):
        with pod:
            if (description := try_describe(pod, problems)) is not None:
                pods.append(description)
    output_format = arguments.text("format")
    if output_format:
        status = write(as_json(pods, output_format))
    else:
        full = arguments.flag("full")
        rows = [] if arguments.flag("no-legend") else [_titles(full)]
        status = write(tabbed(rows + [row for item in pods for row in pod_rows(item, full)]))
    for line in problems:
        tell("ocipod", line)
    return status


def _titles(full: bool) -> list[str]:
    return [*_TITLES[:3], "IMAGE ID", *_TITLES[3:]] if full else list(_TITLES)


def pod_rows(pod: dict[str, Any], full: bool) -> list[list[str]]:
    """Return a table row for each app of ``pod``, a pod's status as a JSON object.

    Columns about the pod, such as its state, are "" in all rows but the first.  Without ``full``,
    ids and times are shortened.
    """
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
    """Return a pod's networks as text: ``default:ip4=172.16.28.2, n2:ip6=fd00::2, n3``."""
    parts = []
    for network in pod["networks"]:
        family = next((key for key in ("ip4", "ip6") if key in network), "")
        address = f":{family}={network[family]}" if family else ""
        parts.append(f"{network.get('name')}{address}")
    return ", ".join(parts)


def run_status(context: Context, arguments: Arguments) -> int:
    """Print a pod's status as ``name=value`` lines or JSON.

    With ``--wait``, first wait until the pod has exited; with ``--wait-ready``, until it is ready.
    Raises PodError after a timeout, or if the pod exits before it is ready.
    """
    until_end = timeout(arguments.text("wait"), "wait")
    until_ready = timeout(arguments.text("wait-ready"), "wait-ready")
    with open_pod(context.directory, given_uuid(arguments)) as pod:
        if until_ready or until_end:
            _wait(pod, until_ready, until_end)
        facts = {"name": pod.uuid, "state": GONE} if pod.state == GONE else describe(pod)
    output_format = arguments.text("format")
    if output_format:
        return write(as_json(facts, output_format))
    return write_lines(status_lines(facts))


def _wait(pod: Pod, until_ready: float, until_end: float) -> None:
    if until_ready and not wait_until_ready(pod, until_ready):
        raise PodError(f'wait for pod {pod.uuid}: the pod is not ready: its state is "{pod.state}"')
    if until_end and not wait_for_end(pod, until_end):
        raise PodError(f"wait for pod {pod.uuid}: timeout: it is still {pod.state}")


def status_lines(pod: dict[str, Any]) -> list[str]:
    """Convert ``pod``, a pod's status as a JSON object, to ``name=value`` lines.

    Exit codes of apps are included unless the pod is running.
    """
    lines = [f"state={pod['state']}"]
    for name in ("created", "started"):
        if f"{name}_at" in pod:
            lines.append(f"{name}={date(pod[f'{name}_at'])}")
    if pod.get("networks"):
        lines.append(f"networks={networks(pod)}")
    if "pid" in pod:
        lines.append(f"pid={pod['pid']}")
    lines.append(f"exited={'true' if pod.get('exited') else 'false'}")
    if pod["state"] != RUNNING:
        lines += [
            f"app-{app['name']}={app['exit_code']}"
            for app in pod.get("apps", ())
            if "exit_code" in app
        ]
    return lines


_FAILED = 254


def run_rm(context: Context, arguments: Arguments) -> int:
    """Remove stopped pods; if a removal fails, print the error and continue with the next pod.

    Returns 254 if a pod could not be removed.  Raises UsageError if no pod is given.
    """
    status = 0
    for uuid in given_uuids(arguments):
        try:
            problems = _remove_pod(context.directory, uuid)
        except RuntimeFailure as failure:
            problems = [str(failure)]
            status = _FAILED
        for problem in problems:
            tell("ocipod", problem)
    return status


def _remove_pod(directory: str, uuid: str) -> list[str]:
    with open_pod(directory, uuid) as pod:
        events = list(garbage_collection.discard(pod))
        write(f'"{pod.uuid}"\n')
        return [
            f"pod {name}: {text}"
            for kind, name, text in events
            if kind == garbage_collection.PROBLEM
        ]


def run_gc(context: Context, arguments: Arguments) -> int:
    """Mark exited pods as garbage, and remove garbage whose grace period is over.

    Errors about single pods are printed, and do not change the exit status 0.
    """
    grace = _period(arguments, "grace-period", garbage_collection.GRACE)
    expiry = _period(arguments, "expire-prepared", garbage_collection.EXPIRY)
    mark_only = arguments.flag("mark-only")
    freed: list[int] = []
    for kind, uuid, text in garbage_collection.collect(
        context.directory, grace, expiry, mark_only=mark_only
    ):
        if kind == garbage_collection.COLLECTING:
            write(f'Garbage collecting pod "{uuid}"\n')
        elif kind == garbage_collection.MOVED:
            _print(f'moving pod "{uuid}" to garbage')
        elif kind == garbage_collection.KEPT:
            _print(f'pod "{uuid}" not removed: {text}')
        elif kind == garbage_collection.FREED:
            freed.append(int(text))
        else:
            tell("ocipod", f'pod "{uuid}": {text}')
    if freed:
        pods = "1 pod" if len(freed) == 1 else f"{len(freed)} pods"
        _print(f"{pods} removed, {amount(sum(freed))} freed")
    return 0


def _period(arguments: Arguments, name: str, default: float) -> float:
    text = arguments.text(name)
    return period(text, name) if text else default


def _print(line: str) -> None:
    os.write(2, f"{plain(line)}\n".encode())


def run_cat_manifest(context: Context, arguments: Arguments) -> int:
    """Print a pod's current manifest as JSON."""
    with open_pod(context.directory, given_uuid(arguments)) as pod:
        manifest = read_manifest(pod)
    pretty = arguments.flags.get("pretty-print", True)
    return write(as_json(manifest, "json-pretty" if pretty else "json"))


def run_stop(context: Context, arguments: Arguments) -> int:
    """Stop running pods; return 254 if a pod could not be stopped.

    Raises UsageError if no pod is given.
    """
    seconds = arguments.number("time", 10)
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
            status = _FAILED
    return status


# Versions of the specifications that ocipod implements.
IMAGE_SPEC = "1.1"
CNI_SPEC = "1.1.0"


def run_version(context: Context, arguments: Arguments) -> int:
    """Print the versions of ocipod, its specifications, Python and the kernel, one per line."""
    del context, arguments
    facts = {
        "ocipod": __version__,
        "image-spec": IMAGE_SPEC,
        "CNI": CNI_SPEC,
        "Python": platform.python_version(),
        "Linux": platform.release(),
        "machine": platform.machine(),
    }
    return write("".join(f"{name}: {version}\n" for name, version in facts.items()))


COMMANDS = (
    Command(
        "list",
        "list pods and their apps",
        run_list,
        options=(
            Option("full", "do not truncate UUIDs, IDs and times"),
            Option("no-legend", "omit the header"),
            FORMAT,
        ),
        details=("Unreadable pods are reported on standard error; the exit status is still 0."),
        examples=(
            ("List all pods", "ocipod list"),
            (
                "Print the UUIDs of running pods",
                (
                    "ocipod list --format=json |\n"
                    "    jq -r '.[] | select(.state == \"running\") | .name'"
                ),
            ),
        ),
    ),
    Command(
        "status [UUID]",
        "print the state of a pod and exit codes of its apps",
        run_status,
        options=(
            Option("wait", "wait until the pod stops, at most TIME", "TIME", kind="optional"),
            Option(
                "wait-ready", "wait until the pod is ready, at most TIME", "TIME", kind="optional"
            ),
            UUID_FILE,
            FORMAT,
        ),
        details=(
            "TIME is a duration (10s, 1h30m). true or a negative duration waits forever,\n"
            "false or 0 does not wait. The exit status is 0 whatever the apps returned, and\n"
            "254 on timeout, or if a pod that should become ready has stopped."
        ),
        examples=(
            ("Wait until a pod stops, at most one minute", "ocipod status --wait=1m 6d52"),
            ("Wait until its apps are running", "ocipod status --wait-ready 6d52"),
        ),
    ),
    Command(
        "rm [UUID]...",
        "remove stopped pods",
        run_rm,
        options=(UUID_FILE,),
        details=(
            "Prints the UUID of each removed pod. If a pod is running, being prepared or\n"
            "deleted, the other pods are removed and the exit status is 254."
        ),
        examples=(("Remove a stopped pod", "ocipod rm 6d52"),),
    ),
    Command(
        "gc",
        "remove stopped pods after a grace period",
        run_gc,
        options=(
            Option(
                "grace-period",
                "keep stopped pods for TIME (default: 30m)",
                "TIME",
                details=(
                    "The grace period begins when the first `gc` after the pod's exit marks it."
                ),
            ),
            Option("expire-prepared", "remove prepared pods after TIME (default: 24h)", "TIME"),
            Option(
                "mark-only",
                "only mark exited pods as garbage",
                details="Expired prepared pods are not removed either.",
            ),
        ),
        details=(
            "Marks stopped pods, and removes pods that were marked longer ago than the grace\n"
            "period. Pods that never ran have no grace period. The next `gc` tries again to\n"
            "remove a pod that could not be removed."
        ),
        examples=(
            ("Collect garbage, for example from a timer", "ocipod gc"),
            ("Remove all stopped pods now", "ocipod gc --grace-period=0s"),
        ),
    ),
    Command(
        "cat-manifest [UUID]",
        "print the manifest of a pod",
        run_cat_manifest,
        options=(Option("pretty-print", "indent (default; =false: one line)"), UUID_FILE),
        examples=(
            ("Print the images of the apps", "ocipod cat-manifest 6d52 | jq '.apps[].image'"),
        ),
    ),
    Command(
        "stop [UUID]...",
        "stop running pods",
        run_stop,
        options=(
            Option("force", "kill the pod at once"),
            TIME,
            Option("wait", "wait until the pods have stopped", short="w"),
            UUID_FILE,
        ),
        examples=(
            ("Stop a pod and wait for it", "ocipod stop --wait 6d52"),
            ("Kill a pod", "ocipod stop --force 6d52"),
        ),
    ),
    Command("version", "print the versions of ocipod and its dependencies", run_version),
)
