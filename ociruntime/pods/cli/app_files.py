"""Commands on an app's files: ``app copy-out``, ``app copy-in``, ``app diff``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from ociruntime.base.errors import PodError, UsageError
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import write, write_lines
from ociruntime.commandline.parser import Arguments
from ociruntime.images.model.settings_files import Settings
from ociruntime.pods.cli.context import Context
from ociruntime.pods.operations import app_files
from ociruntime.pods.operations.export_app import lock_stopped_pod
from ociruntime.pods.store.phases import open_pod
from ociruntime.pods.store.pod import RUNNING
from ociruntime.pods.store.pod_status import app_record, choose_app


@contextmanager
def _root(context: Context, arguments: Arguments) -> Iterator[app_files.AppRoot]:
    settings = Settings(context.system_config, context.local_config, context.user_config)
    with open_pod(context.directory, arguments.positional[0]) as pod:
        app = choose_app(pod, arguments.text("app"))
        expected = arguments.text("only")
        state = "running" if app_record(pod, app)["state"] == "running" else "stopped"
        if expected not in ("", state):
            raise PodError(
                f'copy files of app "{app}" of pod {pod.uuid}: the app is now {state}', "try again"
            )
        # A pod that is started now would mount the same files a second time.
        lock = nullcontext() if pod.state == RUNNING else lock_stopped_pod(pod, "copy files of")
        with lock, app_files.app_root(pod, app, settings.limits()) as root:
            yield root


def run_copy_out(context: Context, arguments: Arguments) -> int:
    """Write a tar archive of the file or directory PATH in an app to standard output.

    With ``--stat``, write the name, kind and size of PATH as JSON instead.  Raises UsageError if
    standard output is a terminal, RuntimeFailure if the files cannot be read.
    """
    path, follow = arguments.positional[1], arguments.flag("follow-link")
    with _root(context, arguments) as root:
        if arguments.flag("stat"):
            return write(json.dumps(app_files.file_facts(root, path, follow=follow)) + "\n")
        if sys.stdout.isatty():
            raise UsageError("app copy-out: standard output is a terminal", "redirect it to a file")
        app_files.copy_out(root, path, sys.stdout.buffer, follow=follow)
        sys.stdout.buffer.flush()
    return 0


def run_copy_in(context: Context, arguments: Arguments) -> int:
    """Unpack the tar archive on standard input into the directory DIR in an app.

    Prints warnings about file attributes that could not be set.  Raises UsageError if standard
    input is a terminal or --name is invalid, RuntimeFailure if the files cannot be written.
    """
    name = arguments.text("name")
    if "/" in name or name in (".", ".."):
        raise UsageError(
            f'--name: "{name}" is not a file name',
            "use a name without a slash, other than . and ..",
        )
    if sys.stdin.isatty():
        raise UsageError(
            "app copy-in: standard input is a terminal", "redirect it from a tar archive"
        )
    with _root(context, arguments) as root:
        warnings = app_files.copy_in(root, arguments.positional[1], sys.stdin.buffer, name=name)
    for warning in warnings:
        context.log.warning(warning)
    return 0


def run_diff(context: Context, arguments: Arguments) -> int:
    """Print the files that an app has added, changed or deleted, one per line.

    The app's files are compared with those of its image.  Raises RuntimeFailure if the files
    cannot be read.
    """
    with open_pod(context.directory, arguments.positional[0]) as pod:
        app = choose_app(pod, arguments.text("app"))
        as_json = arguments.text("format") == "json"
        settings = Settings(context.system_config, context.local_config, context.user_config)
        # Print each change at once: an app can make more changes than fit into memory.
        for kind, path in app_files.changes(pod, app, settings.limits()):
            if as_json:
                status = write(json.dumps({"kind": kind, "path": _text(path)}) + "\n")
            else:
                status = write_lines([f"{kind} {path}"])
            if status:
                return status
    return 0


def _text(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")


_APP = Option("app", "name of the app, if the pod has several", "APP", short="a")
_ONLY = Option("only", value="running|stopped", kind="choice")
COMMANDS = (
    Command(
        "app copy-out UUID PATH",
        "write files of an app to an archive",
        run_copy_out,
        options=(
            _APP,
            Option("follow-link", "if PATH is a symbolic link, copy its target", short="L"),
            Option("stat", "print only name, kind and size, as JSON"),
            _ONLY,
        ),
        details=(
            "Writes a tar archive of a file or directory to standard output. PATH is resolved\n"
            "inside the app, and may be in a volume. Filesystems mounted below it are left\n"
            "out. Fails if the app exits meanwhile. A stopped app cannot be started until the\n"
            "copy is complete."
        ),
        examples=(("List a directory", "ocipod app copy-out --app=web 6d52 /etc | tar t"),),
    ),
    Command(
        "app copy-in UUID DIR",
        "unpack an archive into an app",
        run_copy_in,
        options=(
            _APP,
            Option("name", "rename the top-level file or directory", "NAME", completed=False),
            _ONLY,
        ),
        details=(
            "Reads a tar archive from standard input. Existing files are replaced. DIR is\n"
            "resolved inside the app."
        ),
        examples=(
            ("Copy a file", "tar c index.html | ocipod app copy-in --app=web 6d52 /srv/www"),
        ),
    ),
    Command(
        "app diff UUID",
        "list the files that an app has changed",
        run_diff,
        options=(
            _APP,
            Option("format", "text (default), or JSON lines", "text|json", kind="choice"),
        ),
        details="A marks added files, C changed files, D deleted files.",
    ),
)
