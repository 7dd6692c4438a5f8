"""Commands that lead into containers, as data, in the form of ``cli/options.py``."""

from __future__ import annotations

from ociruntime.cli.options import ANY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.options import Command, Option

_DETACH_KEYS: Option = (
    "detach-keys",
    "",
    "text",
    "KEYS",
    "that leave a terminal (ctrl-p,ctrl-q)",
)

INSIDE_COMMANDS: tuple[Command, ...] = (
    (
        "exec",
        "CONTAINER COMMAND [ARG]...",
        2,
        ANY,
        "run another program in a container that runs",
        (
            ("interactive", "i", "flag", "", "pass on standard input"),
            ("tty", "t", "flag", "", "give it a terminal"),
            ("detach", "d", "flag", "", "do not wait for it"),
            ("user", "u", "text", "USER[:GROUP]", "who runs it"),
            ("workdir", "w", "text", "DIR", "where it begins"),
            ("env", "e", "list", "NAME[=VALUE]", "set a variable"),
            _DETACH_KEYS,
        ),
        "The exit status is the program's.",
    ),
    (
        "attach",
        "CONTAINER",
        1,
        1,
        "use the streams or the terminal of a container that runs",
        (
            ("no-stdin", "", "flag", "", "only look"),
            _DETACH_KEYS,
        ),
        "The exit status is the container's.",
    ),
)
