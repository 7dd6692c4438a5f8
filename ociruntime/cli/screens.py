"""Parts of help texts that fit a screen of 80 columns and 24 lines, whatever the program."""

from __future__ import annotations

from ociruntime.cli.commands import find, first_words
from ociruntime.cli.help import option_lines, usage_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ociruntime.cli.options import Command, Option

    Groups = Sequence[tuple[str, Sequence[Command]]]

# Two commands share a line of 80 columns.
_COLUMN = 39
SCREEN = 24  # lines; where texts of options take more, these are only named


def shown_groups(groups: Groups) -> list[tuple[str, list[Command]]]:
    """Titles and commands, without those that have no summary: they are not for people."""
    shown = [(title, [one for one in commands if one[4]]) for title, commands in groups]
    return [(title, commands) for title, commands in shown if commands]


def help_of(words: Sequence[str], program: str, groups: Groups) -> str:
    """Return the help of the command that ``words`` name, or of a group.  Raises UsageError."""
    commands = [command for _, members in groups for command in members]
    if len(words) == 1 and words[0] in first_words(commands):
        return group_help(program, words[0], groups)
    return command_help(program, find(list(words), commands, program)[0])


def group_help(program: str, first: str, groups: Groups) -> str:
    """The answer to ``app --help``: the commands that begin so."""
    lines = [f"usage: {program} {first} COMMAND [ARGUMENT]..."]
    for _, commands in shown_groups(groups):
        members = [command for command in commands if command[0].startswith(f"{first} ")]
        width = max((len(command[0]) for command in members), default=0)
        lines += [f"  {command[0]:{width}}  {command[4]}" for command in members]
    return "\n".join([*lines, "", f"{program} {first} COMMAND --help says more.", ""])


def command_help(program: str, command: Command) -> str:
    """The answer to ``NAME --help``."""
    name, _, _, _, summary, options, details = command
    usage = " ".join(usage_words(command, program)).rstrip()
    lines = [f"usage: {usage}"]
    if summary:
        lines += ["", f"{summary[0].upper()}{summary[1:]}."]
    if details:
        lines += ["", details]
    shown = option_lines(options)
    if len(lines) + len(shown) + 4 > SCREEN:
        page = f"man {program}-{name.replace(' ', '-')} explains them"
        lines += ["", f"options ({page}):", *option_heads(options)]
    elif shown:
        lines += ["", "options:", *shown]
    return "\n".join([*lines, "", f"{program} --help lists the global options.", ""])


def two_columns(entries: Iterable[str]) -> list[str]:
    """Lines of two entries each, set in by two; one that is too long has a line of its own."""
    lines: list[str] = []
    half = ""
    for entry in entries:
        if half and len(entry) <= _COLUMN:
            lines.append(f"  {half:{_COLUMN}}{entry}")
            half = ""
            continue
        if half:
            lines.append(f"  {half}")
        half = entry if len(entry) < _COLUMN else ""
        if not half:
            lines.append(f"  {entry}")
    return [*lines, f"  {half}"] if half else lines


def option_heads(options: Iterable[Option]) -> list[str]:
    """Names and values alone, as many on a line as there is room for."""
    lines = [""]
    for name, _, kind, value, text in options:
        if not text:
            continue
        head = {"flag": f"--{name}", "optional": f"--{name}[={value}]"}.get(
            kind, f"--{name} {value}"
        )
        if len(lines[-1]) + len(head) > 77:
            lines.append("")
        lines[-1] += f"  {head}"
    return lines
