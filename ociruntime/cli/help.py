"""Help texts, put together from the tables of ``options.py``."""

from __future__ import annotations

from ociruntime.cli.options import COMMANDS, GLOBAL_OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.options import Command, Option

_INDENT = 31

_EXAMPLE = """\
A first container, from a directory with a root filesystem in ./rootfs:
  ociruntime spec
  ociruntime plan
  ociruntime run first
"""


def general_help() -> str:
    """The answer to ``--help`` without a command."""
    width = max(len(command[0]) for command in COMMANDS)
    commands = [f"  {command[0]:{width}}  {command[4]}" for command in COMMANDS]
    return "\n".join(
        [
            "usage: ociruntime [OPTION]... COMMAND [ARGUMENT]...",
            "",
            "Runs containers as the OCI runtime specification describes them.",
            "",
            "commands:",
            *commands,
            "",
            "options:",
            *_option_lines(GLOBAL_OPTIONS),
            "",
            _EXAMPLE,
        ]
    )


def command_help(name: str) -> str:
    """The answer to ``NAME --help``."""
    command = next(command for command in COMMANDS if command[0] == name)
    _, synopsis, _, _, summary, options, details = command
    lines = [_usage(command), "", summary[0].upper() + summary[1:] + "."]
    if details:
        lines += ["", details]
    if synopsis and synopsis.startswith("ID"):
        lines += ["", "ID is the container's name: letters, digits and _ + - ."]
    shown = _option_lines(options)
    if shown:
        lines += ["", "options:", *shown]
    lines += ["", "ociruntime --help shows the options that every command takes."]
    return "\n".join(lines) + "\n"


def _usage(command: Command) -> str:
    name, synopsis, _, _, _, options, _ = command
    parts = ["usage: ociruntime", name]
    if any(option[4] for option in options):
        parts.append("[OPTION]...")
    if synopsis:
        parts.append(synopsis)
    return " ".join(parts)


def _option_lines(options: tuple[Option, ...]) -> list[str]:
    lines: list[str] = []
    for name, short, kind, value, text in options:
        if not text:
            continue
        head = f"  -{short}, --{name}" if short else f"      --{name}"
        if kind != "flag":
            head += f" {value}"
        if len(head) + 2 > _INDENT:
            lines.append(head)
            head = ""
        lines.append(f"{head:{_INDENT}}{text}")
    return lines
