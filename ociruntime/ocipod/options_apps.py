"""Commands about single apps of a running pod, as data, in the form of ``cli/options.py``."""

from __future__ import annotations

from ociruntime.cli.options import ANY
from ociruntime.pod.app_options import ADD_OPTIONS, APP_OPTIONS, RUN_OPTIONS, SAVED_OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.options import Command, Option

_APP: Option = ("app", "a", "text", "APP", "which app")
_TIME: Option = ("time", "t", "number", "SECONDS", "between the stop signal and KILL (10)")
_FORMAT: Option = ("format", "", "choice", "text|json|json-pretty", "how the answer is written")

_SANDBOX_OPTIONS: tuple[Option, ...] = (
    ("port", "", "list", "NAME:PROTO:PORT:IP:PORT", "forward a port of the host to one of the pod"),
    ("on-failure", "", "choice", "keep|halt", "what an app that fails does to the pod (keep)"),
    ("memory", "", "text", "SIZE", "most memory of all apps together"),
    ("cpu", "", "text", "CPUS", "most CPU time of all apps together"),
    ("cpu-shares", "", "text", "N", "the pod's share of CPU time when it is scarce"),
    ("pids", "", "text", "N", "most processes of all apps together"),
    ("keep", "", "flag", "", "gc leaves the pod alone, also when it has ended; rm removes it"),
    ("no-overlay", "", "flag", "", "copy the images' files instead of an overlay"),
    ("private-users", "", "flag", "", "give the pod user ids that nobody on the host has"),
    ("flavor", "", "text", "NAME", ""),
    ("annotation", "", "list", "NAME=VALUE", ""),
    ("user-annotation", "", "list", "NAME=VALUE", ""),
    ("user-label", "", "list", "NAME=VALUE", ""),
)

# Understood, to be refused with the reason, and not shown.
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
        "run a pod without apps, to which they can be added",
        (*_SANDBOX_OPTIONS, *_RUN_OPTIONS, *SAVED_OPTIONS),
        "Prints the pod's UUID when it is ready. It runs until it is stopped.",
    ),
    (
        "app add",
        "UUID IMAGE [OPTION]... [-- ARGUMENT...]",
        0,
        ANY,
        "add an app to such a pod, from an image in the store",
        (*APP_OPTIONS, *ADD_OPTIONS),
        "`app start` starts it.",
    ),
    ("app start", "UUID", 1, 1, "start an app, also one that has ended", (_APP,), ""),
    ("app stop", "UUID", 1, 1, "end an app", (_APP, _TIME), ""),
    (
        "app rm",
        "UUID",
        1,
        1,
        "end an app and remove it with its files",
        (_APP, _TIME),
        "Also from a pod that has ended.",
    ),
    (
        "app list",
        "UUID",
        1,
        1,
        "list apps and their states",
        (("no-legend", "", "flag", "", "without a first line of titles"), _FORMAT),
        "",
    ),
    ("app status", "UUID", 1, 1, "print all about an app", (_APP, _FORMAT), ""),
    (
        "app exec",
        "UUID COMMAND [ARGUMENT]...",
        2,
        ANY,
        "run a command in a running app",
        (
            _APP,
            ("tty", "t", "flag", "", "with a terminal"),
            ("detach", "d", "flag", "", "start it, and do not wait for its end"),
            ("user", "u", "text", "UID[:GID]", "as this user"),
            ("env", "e", "list", "NAME=VALUE", "another variable"),
            ("cwd", "", "text", "DIR", "in this directory"),
            ("log", "", "text", "FILE", "the runtime's own errors, as JSON lines"),
        ),
        "The exit status is that of the command.",
    ),
)
