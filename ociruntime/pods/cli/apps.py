"""Commands on the apps of a running pod: ``app``, ``enter``, ``attach``."""

from __future__ import annotations

import json
import os
from typing import Any

from ociruntime.base.detach_keys import DETACH_KEYS, parse_keys
from ociruntime.base.errors import RuntimeFailure, UsageError
from ociruntime.base.log import Log
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import write, write_lines
from ociruntime.commandline.parser import Arguments
from ociruntime.pods.bundle.runtime_calls import OWN_FAILURE
from ociruntime.pods.cli.context import Context
from ociruntime.pods.cli.options import TIME
from ociruntime.pods.operations import app_exec
from ociruntime.pods.operations.attach_client import attach, parse_mode
from ociruntime.pods.operations.sandbox import remove_app
from ociruntime.pods.store.control_client import ask
from ociruntime.pods.store.manifest_file import read_manifest
from ociruntime.pods.store.phases import open_pod
from ociruntime.pods.store.pod_status import app_names, app_record, choose_app


def run_app_start(context: Context, arguments: Arguments) -> int:
    """Start an app; do nothing if it is running.

    Raises RuntimeFailure if the app cannot be started.
    """
    with open_pod(context.directory, arguments.positional[0]) as pod:
        ask(pod, {"op": "start", "app": choose_app(pod, arguments.text("app"))})
    return 0


def run_app_stop(context: Context, arguments: Arguments) -> int:
    """Stop an app and wait for its exit; do nothing if it has exited.

    Raises RuntimeFailure if the app cannot be stopped.
    """
    with open_pod(context.directory, arguments.positional[0]) as pod:
        name = choose_app(pod, arguments.text("app"))
        if app_record(pod, name)["state"] == "exited":
            write(f'app "{name}" is already stopped\n')
            return 0
        ask(pod, {"op": "stop", "app": name, "seconds": arguments.number("time", 10)})
    return 0


def run_app_rm(context: Context, arguments: Arguments) -> int:
    """Stop an app and remove it with its files.

    Raises RuntimeFailure if the app cannot be stopped or removed.
    """
    with open_pod(context.directory, arguments.positional[0]) as pod:
        remove_app(pod, arguments.text("app"), arguments.number("time", 10))
    return 0


def run_app_list(context: Context, arguments: Arguments) -> int:
    """Print the name and state of each app of a pod, as lines or JSON.

    Raises RuntimeFailure if the pod is not found, or if a file of the pod is damaged.
    """
    with open_pod(context.directory, arguments.positional[0]) as pod:
        apps = [(name, app_record(pod, name)["state"]) for name in app_names(pod)]
    kind = arguments.text("format", "text")
    if kind != "text":
        records = [{"name": name, "state": state} for name, state in apps]
        return write(json.dumps(records, indent=2 if kind == "json-pretty" else None) + "\n")
    lines = [] if arguments.flag("no-legend") else ["NAME\tSTATE\n"]
    return write("".join([*lines, *(f"{name}\t{state}\n" for name, state in apps)]))


def run_app_status(context: Context, arguments: Arguments) -> int:
    """Print an app's status, as ``name=value`` lines or JSON.

    Raises RuntimeFailure if the pod or app is not found, or if a file of the pod is damaged.
    """
    with open_pod(context.directory, arguments.positional[0]) as pod:
        name = choose_app(pod, arguments.text("app"))
        record = app_record(pod, name)
        entry = next(app for app in read_manifest(pod)["apps"] if app["name"] == name)
    facts = status_of(entry, record)
    kind = arguments.text("format", "text")
    if kind != "text":
        return write(json.dumps(facts, indent=2 if kind == "json-pretty" else None) + "\n")
    return write_lines(f"{key}={_value_text(value)}" for key, value in facts.items())


def status_of(entry: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    """Return an app's status as a JSON object, without members that have no value.

    ``entry`` is the app's entry in the pod's manifest, ``record`` the content of its state.json.
    """
    app = entry.get("app") or {}
    times = {f"{key}_at": record.get(key) for key in ("created", "started", "finished")}
    facts: dict[str, Any] = {
        "name": entry["name"],
        "state": record["state"],
        "image_id": (entry.get("image") or {}).get("id"),
        **times,
        **{key: record.get(key) for key in ("exit_code", "signal", "stopped_by", "reason", "pid")},
        "oom_killed": record.get("oom_killed") or None,
        "restarts": record.get("restarts") or None,
        "mounts": {mount["path"]: mount["volume"] for mount in entry.get("mounts") or ()},
        "user_annotations": app.get("userAnnotations"),
        "user_labels": app.get("userLabels"),
    }
    if facts["state"] != "running":
        facts["pid"] = None
    return {key: value for key, value in facts.items() if value not in (None, "", {}, [])}


def _value_text(value: object) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}:{item}" for key, item in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)


def run_app_exec(context: Context, arguments: Arguments) -> int:
    """Replace this process with a command in an app.

    With ``--detach``, start the command in the background instead.  Raises UsageError for
    contradictory options, RuntimeFailure if the command cannot be executed.  With ``--log=FILE``,
    the latter error is written to FILE instead, and the exit status is 254.
    """
    uuid, *argv = arguments.positional
    if not argv:
        raise UsageError("app exec: a command is required", "usage: ocipod app exec UUID COMMAND")
    env = arguments.list("env")
    for variable in env:
        if not variable.partition("=")[1] or variable.startswith("="):
            raise UsageError(f'--env: "{variable}" must be NAME=VALUE')
    if arguments.flag("tty") and arguments.flag("detach"):
        raise UsageError("--tty cannot be combined with --detach")
    command = app_exec.Command(
        argv,
        tty=arguments.flag("tty"),
        env=env,
        user=arguments.text("user"),
        cwd=arguments.text("cwd"),
    )
    pod = open_pod(context.directory, uuid)
    app = choose_app(pod, arguments.text("app"))
    log = arguments.text("log")
    if arguments.flag("detach"):
        app_exec.start_command(pod, app, command)
        return 0
    try:
        app_exec.become_command(pod, app, command, log)
    except RuntimeFailure as error:
        if not log:
            raise
        # Only the log shows that the error is ours: the exit status could be the program's.
        Log(log, "json").error(str(error))
        return OWN_FAILURE


SHELL = "/bin/sh"


def run_enter(context: Context, arguments: Arguments) -> int:
    """Replace this process with a command in an app (default: a shell).

    Raises RuntimeFailure if the command cannot be executed.
    """
    uuid, *command = arguments.positional
    pod = open_pod(context.directory, uuid)
    app = choose_app(pod, arguments.text("app"))
    tty = os.isatty(0) and os.isatty(1)
    app_exec.become_command(pod, app, app_exec.Command(command or [SHELL], tty=tty))


def run_attach(context: Context, arguments: Arguments) -> int:
    """Attach to an app; return the app's exit code, or 0 if the user detaches.

    With ``--mode=list``, print the names of the app's streams instead.  Raises RuntimeFailure if
    attaching fails.
    """
    mode = arguments.text("mode")
    streams = [] if mode == "list" else parse_mode(mode)
    keys = parse_keys(arguments.text("detach-keys", DETACH_KEYS))
    with open_pod(context.directory, arguments.positional[0]) as pod:
        app = choose_app(pod, arguments.text("app"))
        if mode == "list":
            endpoints = ask(pod, {"op": "endpoints", "app": app})["endpoints"]
            return write("".join(f"{name}\n" for name in endpoints))
        return attach(pod, app, streams, keys, wait=arguments.flag("wait"))


PROGRAM_STATUS = (
    ("N", "exit status of the program"),
    ("128 + N", "signal N killed the program"),
    ("254", "the program could not be run"),
)
_APP = Option("app", "name of the app", "APP", short="a")
_APP_OF_SEVERAL = Option("app", "name of the app, if the pod has several", "APP", short="a")
_FORMAT = Option("format", "output format (default: text)", "text|json|json-pretty", kind="choice")
COMMANDS = (
    Command(
        "app start UUID",
        "start a new or stopped app",
        run_app_start,
        options=(_APP,),
        examples=(("Start an app", "ocipod app start --app=web 6d52"),),
    ),
    Command(
        "app stop UUID",
        "stop an app",
        run_app_stop,
        options=(_APP, TIME),
        examples=(
            (
                "Stop an app with a timeout of 30 seconds",
                "ocipod app stop --app=web --time=30 6d52",
            ),
        ),
    ),
    Command(
        "app rm UUID",
        "stop an app and remove it with its files",
        run_app_rm,
        options=(_APP, TIME),
        details="The pod may be running or stopped.",
        examples=(("Remove an app and its files", "ocipod app rm --app=web 6d52"),),
    ),
    Command(
        "app list UUID",
        "list apps and their states",
        run_app_list,
        options=(Option("no-legend", "omit the header"), _FORMAT),
        examples=(("List apps as JSON", "ocipod app list --format=json 6d52"),),
    ),
    Command(
        "app status UUID",
        "show the state of an app",
        run_app_status,
        options=(_APP, _FORMAT),
        examples=(
            (
                "Print the exit code of an app",
                "ocipod app status --app=web --format=json 6d52 | jq .exit_code",
            ),
        ),
    ),
    Command(
        "app exec UUID COMMAND [ARGUMENT]...",
        "run a command in a running app",
        run_app_exec,
        options=(
            _APP,
            Option("tty", "allocate a pseudo-terminal", short="t"),
            Option("detach", "run in the background", short="d"),
            Option(
                "user",
                "user name or UID",
                "USER[:GROUP]",
                short="u",
                details="Names are looked up in the app's /etc/passwd and /etc/group.",
            ),
            Option("env", "set an environment variable", "NAME=VALUE", kind="list", short="e"),
            Option("cwd", "working directory in the app", "DIR", completed=False),
            Option("log", "write errors to FILE, as JSON", "FILE"),
        ),
        options_end=2,
        details="Exits with the status of the command.",
        examples=(
            ("List the processes of the pod", "ocipod app exec --app=web 6d52 ps -ef"),
            ("Open a shell", "ocipod app exec --app=web --tty 6d52 sh"),
        ),
        exit_status=PROGRAM_STATUS,
    ),
    Command(
        "enter UUID [COMMAND [ARGUMENT]...]",
        "run a command in an app (default: a shell)",
        run_enter,
        options=(_APP_OF_SEVERAL,),
        options_end=2,
        details="Exits with the status of the command.",
        examples=(("Open a shell in the only app", "ocipod enter 6d52"),),
        exit_status=PROGRAM_STATUS,
    ),
    Command(
        "attach UUID",
        "attach to the streams or the terminal of an app",
        run_attach,
        options=(
            _APP_OF_SEVERAL,
            Option("mode", "stdin, stdout, stderr, auto (all) or list (show)", "STREAM,..."),
            Option("detach-keys", "detach key sequence (default: ctrl-p,ctrl-q)", "KEYS"),
            Option("wait", "wait for the next start if the app is stopped"),
        ),
        details="Several clients can attach at once; a slow client misses output.",
        examples=(("Attach to the terminal of an app", "ocipod attach --app=shell 6d52"),),
    ),
)
