"""Help texts, put together from the tables of ``options.py``."""

from __future__ import annotations

from ociruntime.cli.manual import GROUPS, ID_FORMAT
from ociruntime.cli.options import COMMANDS, GLOBAL_OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.options import Command, Option

_INDENT = 31

_EXAMPLE = """\
Run a first container from the root filesystem in ./rootfs:
  ociruntime spec; ociruntime plan; ociruntime run first
"""


def general_help() -> str:
    """The answer to ``--help`` without a command."""
    width = max(len(command[0]) for command in COMMANDS)
    summaries = {command[0]: command[4] for command in COMMANDS}
    lines = [
        "usage: ociruntime [OPTION]... COMMAND [ARGUMENT]...",
        "",
        "Run containers from OCI bundles: a root filesystem and a config.json.",
        "",
    ]
    for group, names in GROUPS:
        lines += [f"{group}:", *(f"  {name:{width}}  {summaries[name]}" for name in names)]
    return "\n".join([*lines, "", "global options:", *option_lines(GLOBAL_OPTIONS), "", _EXAMPLE])


def command_help(name: str) -> str:
    """The answer to ``NAME --help``."""
    command = next(command for command in COMMANDS if command[0] == name)
    _, synopsis, _, _, summary, options, details = command
    lines = [
        "usage: " + " ".join(usage_words(command)).rstrip(),
        "",
        summary[0].upper() + summary[1:] + ".",
    ]
    if details:
        lines += ["", details]
    if synopsis and synopsis.startswith("ID"):
        lines += ["", ID_FORMAT]
    shown = option_lines(options)
    if shown:
        lines += ["", "options:", *shown]
    lines += ["", "ociruntime --help lists the global options."]
    return "\n".join(lines) + "\n"


def usage_words(command: Command, program: str = "ociruntime") -> tuple[str, str]:
    """``PROGRAM NAME``, and what may follow."""
    parts = [command[1]] if command[1] else []
    if any(option[4] for option in command[5]) and "OPTION" not in command[1]:
        parts.insert(0, "[OPTION]...")
    return f"{program} {command[0]}", " ".join(parts)


def option_lines(options: tuple[Option, ...]) -> list[str]:
    """Those that have a help text, a line or two each."""
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
