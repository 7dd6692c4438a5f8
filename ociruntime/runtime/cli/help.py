"""Help texts of ``ociruntime``, generated from the tables of ``options.py``."""

from __future__ import annotations

from ociruntime.commandline.help import option_lines, usage_words
from ociruntime.runtime.cli.manual import GROUPS, ID_FORMAT
from ociruntime.runtime.cli.options import COMMANDS, GLOBAL_OPTIONS

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
