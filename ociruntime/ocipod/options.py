"""Every command and option of ``ocipod``, as data, in the form of ``cli/options.py``."""

from __future__ import annotations

from ociruntime.ocipod.options_apps import APP_COMMANDS
from ociruntime.ocipod.options_images import IMAGE_COMMANDS
from ociruntime.ocipod.options_pods import POD_COMMANDS
from ociruntime.ocipod.options_run import RUN_COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.options import Command, Option

GLOBAL_OPTIONS: tuple[Option, ...] = (
    ("dir", "", "text", "DIR", "keep pods and images there (/var/lib/ociruntime)"),
    ("system-config", "", "text", "DIR", "the distribution's settings (/usr/lib/ociruntime)"),
    ("local-config", "", "text", "DIR", "the administrator's settings (/etc/ociruntime)"),
    ("user-config", "", "text", "DIR", "the user's settings"),
    ("runtime", "", "text", "FILE", "the OCI runtime that is called (ociruntime)"),
    ("insecure-options", "", "text", "WORD,...", "checks to leave out: image, tls, http, ..."),
    ("debug", "", "flag", "", "say more, with tracebacks"),
    ("help", "h", "flag", "", "print help, also after a command"),
)

GROUPS: tuple[tuple[str, tuple[Command, ...]], ...] = (
    ("pods", (*RUN_COMMANDS, *POD_COMMANDS)),
    ("apps of a running pod", APP_COMMANDS),
    ("images", IMAGE_COMMANDS),
)
COMMANDS: tuple[Command, ...] = tuple(command for _, group in GROUPS for command in group)

# Options of these belong to the image before them: they read their words themselves.
RAW = ("run", "prepare", "app add")

# From the second argument on, the words of these belong to a program in an app.
INSIDE = ("enter", "app exec")
