"""Commands that change containers, as data, in the form of ``commandline/options.py``."""

from __future__ import annotations

from ociruntime.commandline.options import ANY
from ociruntime.manager.client.options_new import SPEC_OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.options import Command, Option

_TIME: Option = ("time", "t", "number", "SECONDS", "timeout before SIGKILL")
_FORMAT: Option = ("format", "", "text", "FORM", "format: json, `table COLUMN,...` or {{.Field}}")

LIFE_COMMANDS: tuple[Command, ...] = (
    (
        "start",
        "CONTAINER...",
        1,
        ANY,
        "start created or stopped containers",
        (
            ("attach", "a", "flag", "", "attach to its output; exit with its status"),
            ("interactive", "i", "flag", "", "attach stdin, too"),
            ("detach-keys", "", "text", "KEYS", "detach key sequence (default: ctrl-p,ctrl-q)"),
        ),
        "Starting a running container is not an error.",
    ),
    (
        "stop",
        "CONTAINER...",
        1,
        ANY,
        "stop running containers",
        (_TIME,),
        (
            "Sends the container's stop signal and, after its stop timeout, SIGKILL. Stopping\n"
            "a stopped container is not an error."
        ),
    ),
    (
        "kill",
        "CONTAINER...",
        1,
        ANY,
        "send a signal to running containers",
        (("signal", "s", "text", "SIGNAL", "signal to send (default: KILL)"),),
        "",
    ),
    ("restart", "CONTAINER...", 1, ANY, "restart containers", (_TIME,), ""),
    ("pause", "CONTAINER...", 1, ANY, "suspend all processes of containers", (), ""),
    ("unpause", "CONTAINER...", 1, ANY, "resume paused containers", (), ""),
    (
        "wait",
        "CONTAINER...",
        1,
        ANY,
        "wait until containers stop, print their exit codes",
        (),
        "Exits with the code of the last container.",
    ),
    ("rename", "CONTAINER NAME", 2, 2, "rename a container", (), ""),
    (
        "rm",
        "CONTAINER...",
        1,
        ANY,
        "remove stopped containers and their files",
        (
            ("force", "f", "flag", "", "kill running containers first"),
            ("volumes", "v", "flag", "", ""),
        ),
        "",
    ),
    (
        "prune",
        "",
        0,
        0,
        "remove all stopped containers",
        (("force", "f", "flag", "", ""),),
        "Includes containers that were never started, but no paused ones.",
    ),
)

CONTAINER_COMMANDS: tuple[Command, ...] = (
    (
        "container create",
        "NAME [OPTION]... COMMAND [ARG]...",
        2,
        ANY,
        "create a container from a directory or an image",
        (
            ("image", "", "text", "IMAGE", "image to use, unless --rootfs is given"),
            *(option for option in SPEC_OPTIONS if option[0] != "name"),
        ),
        "",
    ),
    (
        "container start",
        "CONTAINER",
        1,
        1,
        "start a created or stopped container",
        (),
        "",
    ),
    ("container stop", "CONTAINER", 1, 1, "stop a running container", (_TIME,), ""),
    ("container get", "CONTAINER", 1, 1, "show a container", (_FORMAT,), ""),
    ("container list", "", 0, 0, "list all containers", (_FORMAT,), ""),
    ("container delete", "CONTAINER", 1, 1, "remove a stopped container", (), ""),
)
