"""Help of a program with commands of one or two words: ``ocipod``, ``ocictl``."""

from __future__ import annotations

from ociruntime.commandline.commands import find, first_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ociruntime.commandline.options import Command, Option

    Groups = Sequence[tuple[str, Sequence[Command]]]

_INDENT = 31


def shown_groups(groups: Groups) -> list[tuple[str, list[Command]]]:
    """Return titles and commands, without internal commands, which have no summary."""
    shown = [(title, [one for one in commands if one[4]]) for title, commands in groups]
    return [(title, commands) for title, commands in shown if commands]


def general_help(
    program: str, description: str, groups: Groups, options: tuple[Option, ...]
) -> str:
    """Return the answer to ``--help`` without a command."""
    lines = [f"usage: {program} [OPTION]... COMMAND [ARGUMENT]...", "", description]
    shown = shown_groups(groups)
    width = max(len(command[0]) for _, commands in shown for command in commands)
    for title, commands in shown:
        lines += ["", f"{title}:"]
        lines += [f"  {command[0]:{width}}  {command[4]}" for command in commands]
    lines += ["", "global options:", *option_lines(options)]
    return "\n".join([*lines, "", f"{program} COMMAND --help describes a command.", ""])


def help_of(words: Sequence[str], program: str, groups: Groups) -> str:
    """Return the help of the command that ``words`` name, or of a group.  Raises UsageError."""
    commands = [command for _, members in groups for command in members]
    if len(words) == 1 and words[0] in first_words(commands):
        return group_help(program, words[0], groups)
    return command_help(program, find(list(words), commands, program)[0])


def group_help(program: str, first: str, groups: Groups) -> str:
    """Return the answer to ``app --help``: the commands with this first word."""
    lines = [f"usage: {program} {first} COMMAND [ARGUMENT]..."]
    for _, commands in shown_groups(groups):
        members = [command for command in commands if command[0].startswith(f"{first} ")]
        width = max((len(command[0]) for command in members), default=0)
        lines += [f"  {command[0]:{width}}  {command[4]}" for command in members]
    return "\n".join([*lines, "", f"{program} {first} COMMAND --help describes a command.", ""])


def command_help(program: str, command: Command) -> str:
    """Return the answer to ``NAME --help``."""
    _, _, _, _, summary, options, details = command
    usage = " ".join(usage_words(command, program)).rstrip()
    lines = [f"usage: {usage}"]
    if summary:
        lines += ["", f"{summary[0].upper()}{summary[1:]}."]
    if details:
        lines += ["", details]
    shown = option_lines(options)
    if shown:
        lines += ["", "options:", *shown]
    return "\n".join([*lines, "", f"{program} --help lists the global options.", ""])


def usage_words(command: Command, program: str = "ociruntime") -> tuple[str, str]:
    """``PROGRAM NAME``, and what may follow."""
    parts = [command[1]] if command[1] else []
    if any(option[4] for option in command[5]) and "OPTION" not in command[1]:
        parts.insert(0, "[OPTION]...")
    return f"{program} {command[0]}", " ".join(parts)


def option_lines(options: tuple[Option, ...]) -> list[str]:
    """Return the options that have a help text, one or two lines each."""
    lines: list[str] = []
    for name, short, kind, value, text in options:
        if not text:
            continue
        head = f"  -{short}, --{name}" if short else f"      --{name}"
        if kind == "optional":
            head += f"[={value}]"
        elif kind != "flag":
            head += f" {value}"
        if len(head) + 2 > _INDENT:
            lines.append(head)
            head = ""
        lines.append(f"{head:{_INDENT}}{text}")
    return lines
