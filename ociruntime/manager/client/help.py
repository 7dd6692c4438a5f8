"""Help texts of ``ocictl``, generated from the tables of ``options.py``."""

from __future__ import annotations

from ociruntime.commandline import help as screens
from ociruntime.manager.client.options import GLOBAL_OPTIONS, GROUPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ociruntime.commandline.options import Command

_DESCRIPTION = "Manage containers and images with the daemon ocid."


def general_help() -> str:
    """Return the answer to ``--help`` without a command."""
    return screens.general_help("ocictl", _DESCRIPTION, GROUPS, GLOBAL_OPTIONS)


def help_of(words: Sequence[str]) -> str:
    """Return the help of the command that ``words`` name, of a group, or of all commands."""
    return screens.help_of(words, "ocictl", GROUPS) if words else general_help()


def command_help(command: Command) -> str:
    """Return the answer to ``NAME --help``."""
    return screens.command_help("ocictl", command)
