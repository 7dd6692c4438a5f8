"""Help texts of ``ocictl``, put together from the tables of ``options.py``."""

from __future__ import annotations

from ociruntime.cli import screens
from ociruntime.ocictl.manual import SHORT
from ociruntime.ocictl.options import GLOBAL_OPTIONS, GROUPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ociruntime.cli.options import Command


def general_help() -> str:
    """The answer to ``--help`` without a command: one screen."""
    lines = ["usage: ocictl [OPTION]... COMMAND [ARGUMENT]...  (COMMAND --help says more)"]
    for title, commands in screens.shown_groups(GROUPS):
        entries = _entries(commands)
        width = max((len(name) for name, text in entries if text), default=0)
        rows = [f"{name:{width}} {text}".rstrip() for name, text in entries]
        lines += [f"{title}:", *screens.two_columns(rows)]
    heads = screens.option_heads(GLOBAL_OPTIONS)
    return "\n".join([*lines, "options (man ocictl explains them):", *heads, ""])


def _entries(commands: Sequence[Command]) -> list[tuple[str, str]]:
    """Names and summaries; commands of two words share an entry, by the first of them."""
    entries: dict[str, str] = {}
    for command in commands:
        first, blank, second = command[0].partition(" ")
        if not blank:
            entries[first] = SHORT.get(first, command[4])
        elif first in entries:
            entries[first] += f", {second}"
        else:
            entries[first] = second
    return list(entries.items())


def help_of(words: Sequence[str]) -> str:
    """Return the help of the command that ``words`` name, of a group, or of all commands."""
    return screens.help_of(words, "ocictl", GROUPS) if words else general_help()


def command_help(command: Command) -> str:
    """The answer to ``NAME --help``."""
    return screens.command_help("ocictl", command)
