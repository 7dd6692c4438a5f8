"""Help texts of ``ocipod``, put together from the tables of ``options.py``."""

from __future__ import annotations

from ociruntime.cli import screens
from ociruntime.ocipod.manual import SHORT
from ociruntime.ocipod.options import GLOBAL_OPTIONS, GROUPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ociruntime.cli.options import Command


def general_help() -> str:
    """The answer to ``--help`` without a command: one screen."""
    lines = ["usage: ocipod [OPTION]... COMMAND [ARGUMENT]...  (COMMAND --help says more)"]
    for title, commands in screens.shown_groups(GROUPS):
        width = max(len(command[0]) for command in commands)
        entries = [f"{command[0]:{width}} {_short(command)}" for command in commands]
        lines += [f"{title}:", *screens.two_columns(entries)]
    heads = screens.option_heads(GLOBAL_OPTIONS)
    return "\n".join([*lines, "options (man ocipod explains them):", *heads, ""])


def help_of(words: Sequence[str]) -> str:
    """Return the help of the command that ``words`` name, of a group, or of all commands."""
    return screens.help_of(words, "ocipod", GROUPS) if words else general_help()


def command_help(command: Command) -> str:
    """The answer to ``NAME --help``."""
    return screens.command_help("ocipod", command)


def _short(command: Command) -> str:
    return SHORT.get(command[0], command[4])
