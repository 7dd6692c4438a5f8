"""Commands of several words, looked up in a program's table in full or by a unique prefix."""

from __future__ import annotations

from ociruntime.base.errors import UsageError
from ociruntime.commandline.parser import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ociruntime.commandline.options import Command, Option
    from ociruntime.commandline.parser import Arguments


def first_words(commands: Sequence[Command]) -> set[str]:
    """Return the first words of command names that have a second word."""
    return {command[0].partition(" ")[0] for command in commands if " " in command[0]}


def find(words: list[str], commands: Sequence[Command], program: str) -> tuple[Command, int]:
    """Return the command that ``words`` begin with, and its number of words. Raises UsageError."""
    groups = first_words(commands)
    single = [command[0] for command in commands if " " not in command[0]]
    hidden = [command[0] for command in commands if not command[4]]
    first = _complete(words[0], [*groups, *single], hidden, program)
    name, used = first, 1
    if first in groups:
        members = [c[0].partition(" ")[2] for c in commands if c[0].startswith(f"{first} ")]
        if len(words) < 2:
            raise UsageError(f'"{first}" needs a command', " ".join(sorted(members)))
        name, used = f"{first} {_complete(words[1], members, hidden, program)}", 2
    return next(command for command in commands if command[0] == name), used


def read_inside(
    words: list[str], tables: tuple[tuple[Option, ...], ...], arguments: Arguments
) -> None:
    """Parse a command that runs a program inside the object that its first argument names.

    After that argument, the first word that is not an option begins the program's command line.
    Raises UsageError.
    """
    end = parse(words, tables, arguments, mixed=False)
    arguments.positional += words[end : end + 1]
    words = words[end + 1 :]
    arguments.positional += words[parse(words, tables, arguments, mixed=False) :]


def _complete(word: str, names: list[str], hidden: list[str], program: str) -> str:
    if word in names:
        return word
    shown = [name for name in names if name not in hidden]
    matches = [name for name in shown if name.startswith(word)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UsageError(f'"{word}" means several commands', " ".join(sorted(matches)))
    from ociruntime.commandline.suggestions import closest

    close = closest(word, shown)
    hint = f"did you mean {close}?" if close else f"{program} --help lists the commands"
    raise UsageError(f'unknown command "{word}"', hint)
