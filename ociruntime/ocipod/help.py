"""Help texts of ``ocipod``, put together from the tables of ``options.py``."""

from __future__ import annotations

from ociruntime.cli.help import option_lines, usage_words
from ociruntime.ocipod.manual import SHORT
from ociruntime.ocipod.options import GLOBAL_OPTIONS, GROUPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ociruntime.cli.options import Command, Option

# Two commands share a line of 80 columns.
_COLUMN = 39
SCREEN = 24  # lines; where texts of options take more, these are only named


def general_help() -> str:
    """The answer to ``--help`` without a command: one screen."""
    lines = ["usage: ocipod [OPTION]... COMMAND [ARGUMENT]...  (COMMAND --help says more)"]
    for title, commands in shown_groups():
        width = max(len(command[0]) for command in commands)
        entries = [f"{command[0]:{width}} {_short(command)}" for command in commands]
        lines += [f"{title}:", *two_columns(entries)]
    return "\n".join([*lines, "options (man ocipod explains them):", *_heads(GLOBAL_OPTIONS), ""])


def group_help(first: str) -> str:
    """The answer to ``app --help``: the commands that begin so."""
    lines = [f"usage: ocipod {first} COMMAND [ARGUMENT]..."]
    for _, commands in shown_groups():
        members = [command for command in commands if command[0].startswith(f"{first} ")]
        width = max((len(command[0]) for command in members), default=0)
        lines += [f"  {command[0]:{width}}  {command[4]}" for command in members]
    return "\n".join([*lines, "", f"ocipod {first} COMMAND --help says more.", ""])


def shown_groups() -> list[tuple[str, list[Command]]]:
    """Titles and commands, without those that have no summary: they are not for people."""
    groups = [(title, [one for one in commands if one[4]]) for title, commands in GROUPS]
    return [(title, commands) for title, commands in groups if commands]


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


def command_help(command: Command) -> str:
    """The answer to ``NAME --help``."""
    name, _, _, _, summary, options, details = command
    usage = " ".join(usage_words(command, "ocipod")).rstrip()
    lines = [f"usage: {usage}"]
    if summary:
        lines += ["", f"{summary[0].upper()}{summary[1:]}."]
    if details:
        lines += ["", details]
    shown = option_lines(options)
    if len(lines) + len(shown) + 4 > SCREEN:
        page = f"man ocipod-{name.replace(' ', '-')} explains them"
        lines += ["", f"options ({page}):", *_heads(options)]
    elif shown:
        lines += ["", "options:", *shown]
    return "\n".join([*lines, "", "ocipod --help shows the options that every command takes.", ""])


def _heads(options: Iterable[Option]) -> list[str]:
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


def _short(command: Command) -> str:
    return SHORT.get(command[0], command[4])
