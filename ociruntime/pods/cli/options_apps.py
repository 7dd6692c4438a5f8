"""Commands about single apps of a running pod, in the form of ``commandline/options.py``."""

from __future__ import annotations

from ociruntime.commandline.options import ANY
from ociruntime.pods.manifest.app_options import (
    ADD_OPTIONS,
    APP_OPTIONS,
    RUN_OPTIONS,
    SAVED_OPTIONS,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.options import Command, Option

_APP: Option = ("app", "a", "text", "APP", "name of the app")
_TIME: Option = ("time", "t", "number", "SECONDS", "timeout before SIGKILL (default: 10)")
_FORMAT: Option = ("format", "", "choice", "text|json|json-pretty", "output format (default: text)")

_SANDBOX_OPTIONS: tuple[Option, ...] = (
    ("port", "", "list", "NAME:PROTO:PORT:IP:PORT", "publish a port of the pod to the host"),
    ("on-failure", "", "choice", "keep|halt", "effect of a failed app on the pod (default: keep)"),
    ("memory", "", "text", "SIZE", "memory limit of all apps together"),
    ("cpu", "", "text", "CPUS", "CPU limit of all apps together"),
    ("cpu-shares", "", "text", "N", "CPU shares of the pod (relative weight)"),
    ("pids", "", "text", "N", "maximum number of processes in the pod"),
    ("keep", "", "flag", "", "exclude the stopped pod from gc"),
    ("no-overlay", "", "flag", "", "copy the images' files, do not use overlayfs"),
    ("private-users", "", "flag", "", "run the pod in a user namespace"),
    ("flavor", "", "text", "NAME", ""),
    ("annotation", "", "list", "NAME=VALUE", ""),
    ("user-annotation", "", "list", "NAME=VALUE", ""),
    ("user-label", "", "list", "NAME=VALUE", ""),
)

# Hidden: accepted only to be refused with an explanation.
_INTERACTIVE: Option = ("interactive", "", "flag", "", "")
_RUN_OPTIONS: tuple[Option, ...] = (
    *(option for option in RUN_OPTIONS if option[0] != "interactive"),
    _INTERACTIVE,
)

APP_COMMANDS: tuple[Command, ...] = (
    (
        "app sandbox",
        "",
        0,
        0,
        "run an empty pod to add apps to",
        (*_SANDBOX_OPTIONS, *_RUN_OPTIONS, *SAVED_OPTIONS),
        "Prints the UUID when the pod is ready. The pod runs until it is stopped.",
    ),
    (
        "app add",
        "UUID IMAGE [OPTION]... [-- ARGUMENT...]",
        0,
        ANY,
        "add an app to a sandbox, from an image in the store",
        (*APP_OPTIONS, *ADD_OPTIONS),
        "Start the app with `app start`.",
    ),
    ("app start", "UUID", 1, 1, "start a new or stopped app", (_APP,), ""),
    ("app stop", "UUID", 1, 1, "stop an app", (_APP, _TIME), ""),
    (
        "app rm",
        "UUID",
        1,
        1,
        "stop an app and remove it with its files",
        (_APP, _TIME),
        "The pod may be stopped.",
    ),
    (
        "app list",
        "UUID",
        1,
        1,
        "list apps and their states",
        (("no-legend", "", "flag", "", "omit the header"), _FORMAT),
        "",
    ),
    ("app status", "UUID", 1, 1, "show the state of an app", (_APP, _FORMAT), ""),
    (
        "app exec",
        "UUID COMMAND [ARGUMENT]...",
        2,
        ANY,
        "run a command in a running app",
        (
            _APP,
            ("tty", "t", "flag", "", "allocate a pseudo-terminal"),
            ("detach", "d", "flag", "", "run in the background"),
            ("user", "u", "text", "UID[:GID]", "numeric user and group"),
            ("env", "e", "list", "NAME=VALUE", "set an environment variable"),
            ("cwd", "", "text", "DIR", "working directory in the app"),
            ("log", "", "text", "FILE", "log file for errors of the runtime, as JSON"),
        ),
        "Exits with the status of the command.",
    ),
)
