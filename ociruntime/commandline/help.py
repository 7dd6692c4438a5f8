"""Generate the help texts of a program and its commands from their definitions."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.options import Command, Option
    from ociruntime.commandline.program import Program

_INDENT = 31


def general_help(program: Program, closing: str = "") -> str:
    """Return the text of ``PROGRAM --help``: all commands and the global options.

    ``closing`` replaces the last line, which says how to get the help for a command.
    """
    lines = [f"usage: {program.name} [OPTION]... COMMAND [ARGUMENT]...", "", program.description]
    groups = program.shown_groups()
    width = max(len(command.name) for _, commands in groups for command in commands)
    for title, commands in groups:
        lines += ["", f"{title}:"]
        lines += [f"  {command.name:{width}}  {command.summary}" for command in commands]
    lines += ["", "global options:", *option_lines(program.options), ""]
    return "\n".join([*lines, closing or f"{program.name} COMMAND --help describes a command.", ""])


def group_help(program: Program, first: str) -> str:
    """Return the text of ``PROGRAM GROUP --help``: the commands whose first word is ``first``."""
    lines = [f"usage: {program.name} {first} COMMAND [ARGUMENT]..."]
    for _, commands in program.shown_groups():
        members = [command for command in commands if command.name.startswith(f"{first} ")]
        width = max((len(command.name) for command in members), default=0)
        lines += [f"  {command.name:{width}}  {command.summary}" for command in members]
    if others := _aliases(program, first):
        lines += ["", f'same as the command without "{first}":', *others]
    closing = f"{program.name} {first} COMMAND --help describes a command."
    return "\n".join([*lines, "", closing, ""])


def _aliases(program: Program, first: str) -> list[str]:
    """Return help lines that list the aliases in the group ``first``: ``attach, cp, ls (ps)``.

    The command is in parentheses if its name differs from the alias's second word.
    """
    import textwrap

    words = []
    for alias, name in program.aliases.items():
        group, _, word = alias.partition(" ")
        if group == first:
            words.append(word if word == name else f"{word} ({name})")
    return textwrap.wrap(", ".join(sorted(words)), 78, initial_indent="  ", subsequent_indent="  ")


def command_help(program: str, command: Command, argument: str = "") -> str:
    """Return the text of ``PROGRAM COMMAND --help``.

    ``argument`` is a paragraph that explains the command's argument.
    """
    lines = [f"usage: {' '.join(usage(program, command)).rstrip()}"]
    if command.summary:
        lines += ["", f"{command.summary[0].upper()}{command.summary[1:]}."]
    for text in (command.details, argument):
        if text:
            lines += ["", text]
    for title, options in _grouped(command):
        shown = option_lines(options)
        if shown:
            lines += ["", f"{title}:", *shown]
    return "\n".join([*lines, "", f"{program} --help lists the global options.", ""])


def _grouped(command: Command) -> list[tuple[str, tuple[Option, ...]]]:
    """Return a command's options as (title, options) groups; ungrouped options come first."""
    titles = {name: title for title, names in command.option_groups for name in names}
    groups: dict[str, list[Option]] = {"options": []}
    groups |= {title: [] for title, _ in command.option_groups}
    for option in command.options:
        groups[titles.get(option.name, "options")].append(option)
    return [(title, tuple(options)) for title, options in groups.items()]


def usage(program: str, command: Command) -> tuple[str, str]:
    """Return a command's usage line in two parts: (program and command, options and arguments)."""
    parts = [command.synopsis] if command.synopsis else []
    if any(option.help for option in command.options) and "OPTION" not in command.synopsis:
        parts.insert(0, "[OPTION]...")
    return f"{program} {command.name}", " ".join(parts)


def option_lines(options: tuple[Option, ...]) -> list[str]:
    """Return one or two help lines for each option; omit options without a help text."""
    lines: list[str] = []
    for option in options:
        if not option.help:
            continue
        short = f"-{option.short}, " if option.short else "    "
        head = f"  {short}--{option.name}"
        if option.kind in ("optional", "joined"):
            head += f"[={option.value}]"
        elif option.kind != "flag":
            head += f" {option.value}"
        if len(head) + 2 > _INDENT:
            lines.append(head)
            head = ""
        lines.append(f"{head:{_INDENT}}{option.help}")
    return lines
