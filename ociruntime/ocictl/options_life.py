"""Commands that change containers, as data, in the form of ``cli/options.py``."""

from __future__ import annotations

from ociruntime.cli.options import ANY
from ociruntime.ocictl.options_new import SPEC_OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.options import Command, Option

_TIME: Option = ("time", "t", "number", "SECONDS", "between the stop signal and KILL")
_FORMAT: Option = ("format", "", "text", "FORM", "json, `table COLUMN,...` or {{.Field}}")

LIFE_COMMANDS: tuple[Command, ...] = (
    (
        "start",
        "CONTAINER...",
        1,
        ANY,
        "start containers, also those that have ended",
        (
            ("attach", "a", "flag", "", "show what the only one writes, and end as it ends"),
            ("interactive", "i", "flag", "", "pass on standard input to it"),
            ("detach-keys", "", "text", "KEYS", "that leave a terminal (ctrl-p,ctrl-q)"),
        ),
        "One that runs already is left as it is.",
    ),
    (
        "stop",
        "CONTAINER...",
        1,
        ANY,
        "ask containers to end, then kill them",
        (_TIME,),
        (
            "One that has ended is left as it is. The signal is the container's own, and so\n"
            "is the time without the option."
        ),
    ),
    (
        "kill",
        "CONTAINER...",
        1,
        ANY,
        "send a signal to the containers' programs",
        (("signal", "s", "text", "SIGNAL", "which one (KILL)"),),
        "",
    ),
    ("restart", "CONTAINER...", 1, ANY, "stop containers and start them again", (_TIME,), ""),
    ("pause", "CONTAINER...", 1, ANY, "freeze all processes of containers", (), ""),
    ("unpause", "CONTAINER...", 1, ANY, "let them go on", (), ""),
    (
        "wait",
        "CONTAINER...",
        1,
        ANY,
        "wait until containers have ended",
        (),
        "Prints the exit code of each; its own exit status is that of the last.",
    ),
    ("rename", "CONTAINER NAME", 2, 2, "give a container another name", (), ""),
    (
        "rm",
        "CONTAINER...",
        1,
        ANY,
        "remove containers that do not run, with their files",
        (
            ("force", "f", "flag", "", "also those that run"),
            ("volumes", "v", "flag", "", ""),
        ),
        "",
    ),
    (
        "prune",
        "",
        0,
        0,
        "remove all containers that do not run",
        (("force", "f", "flag", "", ""),),
        "Also those that were never started. What runs or is paused stays.",
    ),
)

CONTAINER_COMMANDS: tuple[Command, ...] = (
    (
        "container create",
        "NAME [OPTION]... COMMAND [ARG]...",
        2,
        ANY,
        "make a container of a directory or an image",
        (
            ("image", "", "text", "IMAGE", "the image, where --rootfs is not given"),
            *(option for option in SPEC_OPTIONS if option[0] != "name"),
        ),
        "",
    ),
    (
        "container start",
        "CONTAINER",
        1,
        1,
        "start a container that is created or stopped",
        (),
        "",
    ),
    ("container stop", "CONTAINER", 1, 1, "stop a container that runs", (_TIME,), ""),
    ("container get", "CONTAINER", 1, 1, "print what is known of a container", (_FORMAT,), ""),
    ("container list", "", 0, 0, "print that of all containers", (_FORMAT,), ""),
    ("container delete", "CONTAINER", 1, 1, "remove a container that does not run", (), ""),
)
