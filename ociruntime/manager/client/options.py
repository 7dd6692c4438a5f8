"""Every command and option of ``ocictl``, as data, in the form of ``commandline/options.py``."""

from __future__ import annotations

from ociruntime.manager.client.options_images import IMAGE_COMMANDS
from ociruntime.manager.client.options_inside import INSIDE_COMMANDS
from ociruntime.manager.client.options_life import CONTAINER_COMMANDS, LIFE_COMMANDS
from ociruntime.manager.client.options_new import NEW_COMMANDS
from ociruntime.manager.client.options_seen import SEEN_COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.options import Command, Option

SOCKET = "/run/ocid/ocid.sock"

GLOBAL_OPTIONS: tuple[Option, ...] = (
    ("socket", "", "text", "PATH", f"socket of ocid (default: {SOCKET})"),
    ("debug", "", "flag", "", "enable debug output and tracebacks"),
    ("help", "h", "flag", "", "print help; also after a command"),
)

GROUPS: tuple[tuple[str, tuple[Command, ...]], ...] = (
    ("containers", (*NEW_COMMANDS, *LIFE_COMMANDS)),
    ("inspection", SEEN_COMMANDS),
    ("processes in containers", INSIDE_COMMANDS),
    ("images, pods and the daemon", IMAGE_COMMANDS),
    ("strict commands for scripts, with fixed columns", CONTAINER_COMMANDS),
)
COMMANDS: tuple[Command, ...] = tuple(command for _, group in GROUPS for command in group)

# Commands whose arguments are, after the options, the image and the container's command.
OUTSIDE = ("run", "create")
# Commands whose arguments from the second on are the container's command.
INSIDE = ("exec", "container create")
