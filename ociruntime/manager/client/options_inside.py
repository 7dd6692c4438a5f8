"""Commands about processes in containers, as data, in the form of ``commandline/options.py``."""

from __future__ import annotations

from ociruntime.commandline.options import ANY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.options import Command, Option

_DETACH_KEYS: Option = (
    "detach-keys",
    "",
    "text",
    "KEYS",
    "detach key sequence (default: ctrl-p,ctrl-q)",
)

INSIDE_COMMANDS: tuple[Command, ...] = (
    (
        "exec",
        "CONTAINER COMMAND [ARG]...",
        2,
        ANY,
        "run a command in a running container",
        (
            ("interactive", "i", "flag", "", "keep stdin open"),
            ("tty", "t", "flag", "", "allocate a pseudo-terminal"),
            ("detach", "d", "flag", "", "run in the background"),
            ("user", "u", "text", "USER[:GROUP]", "user name or UID"),
            ("workdir", "w", "text", "DIR", "working directory in the container"),
            ("env", "e", "list", "NAME[=VALUE]", "set an environment variable"),
            _DETACH_KEYS,
        ),
        "Exits with the status of the command.",
    ),
    (
        "attach",
        "CONTAINER",
        1,
        1,
        "attach to the streams of a running container",
        (
            ("no-stdin", "", "flag", "", "do not attach stdin"),
            _DETACH_KEYS,
        ),
        "Exits with the status of the container.",
    ),
)
