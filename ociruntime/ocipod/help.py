"""Help texts of ``ocipod``, put together from the tables of ``options.py``."""

from __future__ import annotations

from ociruntime.cli.help import option_lines
from ociruntime.ocipod.options import COMMANDS, GLOBAL_OPTIONS, GROUPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.options import Command


def general_help() -> str:
    """The answer to ``--help`` without a command."""
    width = max(len(command[0]) for command in COMMANDS)
    lines = [
        "usage: ocipod [OPTION]... COMMAND [ARGUMENT]...",
        "",
        "Runs pods: apps from images that share a network, without a daemon.",
        "",
    ]
    for title, commands in GROUPS:
        lines += [f"{title}:", *(f"  {command[0]:{width}}  {command[4]}" for command in commands)]
    return "\n".join([*lines, "", "options:", *option_lines(GLOBAL_OPTIONS), ""])


def command_help(command: Command) -> str:
    """The answer to ``NAME --help``."""
    name, synopsis, _, _, summary, options, details = command
    words = ["usage: ocipod", name, "[OPTION]..." if options else "", synopsis]
    lines = [" ".join(word for word in words if word), "", f"{summary[0].upper()}{summary[1:]}."]
    if details:
        lines += ["", details]
    if options:
        lines += ["", "options:", *option_lines(options)]
    return "\n".join([*lines, "", "ocipod --help shows the options that every command takes.", ""])
