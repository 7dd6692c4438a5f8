"""Every command and option of ``ocipod``, as data, in the form of ``commandline/options.py``."""

from __future__ import annotations

from ociruntime.pods.cli.options_apps import APP_COMMANDS
from ociruntime.pods.cli.options_images import IMAGE_COMMANDS
from ociruntime.pods.cli.options_pods import POD_COMMANDS
from ociruntime.pods.cli.options_run import RUN_COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.options import Command, Option

GLOBAL_OPTIONS: tuple[Option, ...] = (
    ("dir", "", "text", "DIR", "directory of pods and images"),
    ("system-config", "", "text", "DIR", "vendor settings (default: /usr/lib/ociruntime)"),
    ("local-config", "", "text", "DIR", "local settings (default: /etc/ociruntime)"),
    ("user-config", "", "text", "DIR", "user settings"),
    ("runtime", "", "text", "FILE", "OCI runtime to use (default: ociruntime)"),
    ("insecure-options", "", "text", "WORD,...", "skip checks: image, tls, http, ..."),
    ("debug", "", "flag", "", "enable debug output and tracebacks"),
    ("help", "h", "flag", "", "print help; also after a command"),
)

GROUPS: tuple[tuple[str, tuple[Command, ...]], ...] = (
    ("pods", (*RUN_COMMANDS, *POD_COMMANDS)),
    ("apps of a running pod", APP_COMMANDS),
    ("images", IMAGE_COMMANDS),
)
COMMANDS: tuple[Command, ...] = tuple(command for _, group in GROUPS for command in group)

# Their options belong to the image before them; they parse their arguments themselves.
RAW = ("run", "prepare", "app add")

# From the second argument on, their arguments belong to a program in an app.
INSIDE = ("enter", "app exec")
