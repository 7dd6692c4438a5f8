"""The programs that have manual pages and completions, with their commands and options."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from ociruntime.commandline.help import usage  # noqa: E402
from ociruntime.commandline.options import ANY  # noqa: E402
from ociruntime.manager.client import manual as client_manual  # noqa: E402
from ociruntime.manager.client.command_table import PROGRAM as CLIENT  # noqa: E402
from ociruntime.manager.daemon import manual as daemon_manual  # noqa: E402
from ociruntime.manager.daemon import options as daemon_options  # noqa: E402
from ociruntime.pods.cli import manual as pod_manual  # noqa: E402
from ociruntime.pods.cli.command_table import PROGRAM as PODS  # noqa: E402
from ociruntime.pods.manifest.app_options import APP_OPTIONS  # noqa: E402
from ociruntime.runtime.cli import manual as runtime_manual  # noqa: E402
from ociruntime.runtime.cli.help import PROGRAM as RUNTIME  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ociruntime.commandline.options import Command, Option
    from ociruntime.commandline.program import Program as Definition

    Terms = tuple[tuple[str, str], ...]


class Manual(Protocol):
    """The texts of a module such as ``runtime/cli/manual.py``, which describes them."""

    @property
    def DESCRIPTION(self) -> str: ...  # noqa: N802
    @property
    def ARGUMENTS(self) -> tuple[tuple[str, str, str], ...]: ...  # noqa: N802
    @property
    def SECTIONS(self) -> tuple[tuple[str, Terms], ...]: ...  # noqa: N802
    @property
    def EXIT_STATUS(self) -> Terms: ...  # noqa: N802
    @property
    def EXAMPLES(self) -> Terms: ...  # noqa: N802
    @property
    def LISTED(self) -> Mapping[str, str]: ...  # noqa: N802
    @property
    def COMPLETED_BY(self) -> Mapping[str, str]: ...  # noqa: N802
    @property
    def NEW_CONTAINER(self) -> tuple[str, ...]: ...  # noqa: N802


@dataclass(frozen=True)
class Program:
    """A program with its commands.

    ``groups`` are (title, commands) as in the help. ``root`` is the option for the directory or
    socket that determines which objects the program lists. ``package`` is a path, for comments.
    """

    name: str
    summary: str
    package: str
    root: str
    options: tuple[Option, ...]
    groups: list[tuple[str, list[Command]]]
    manual: Manual

    @property
    def commands(self) -> tuple[Command, ...]:
        """The commands that the help shows."""
        return tuple(command for _, commands in self.groups for command in commands)

    @property
    def first_words(self) -> list[str]:
        """The first words of all commands, each once."""
        return list(dict.fromkeys(command.name.partition(" ")[0] for command in self.commands))

    @property
    def members(self) -> dict[str, list[Command]]:
        """The commands of two words by their first word: ``image`` -> ``image list`` ..."""
        members: dict[str, list[Command]] = {}
        for command in self.commands:
            first, blank, _ = command.name.partition(" ")
            if blank:
                members.setdefault(first, []).append(command)
        return members

    def page(self, command: str) -> str:
        """Return the name of a command's manual page, such as ``ocipod-image-list``."""
        return f"{self.name}-{command.replace(' ', '-')}"

    def usage(self, command: Command) -> tuple[str, str]:
        """Return the command with its program, ``ocipod image list``, and its arguments."""
        return usage(self.name, command)

    def option_sections(self, command: Command) -> list[tuple[str, tuple[Option, ...]]]:
        """Return the sections of options in the command's manual page: (title, options)."""
        of_app = tuple(option for option in command.options if option in APP_OPTIONS)
        if not command.parse or not of_app:
            return [("OPTIONS", command.options)]
        others = tuple(option for option in command.options if option not in of_app)
        return [("OPTIONS", others), ("OPTIONS OF AN APP", of_app)]

    def runs_another(self, command: Command) -> bool:
        """Return whether the command's arguments contain another program's command line.

        Then the first argument ends the options.
        """
        another = re.search(r"\b(COMMAND|PROGRAM|ARG(UMENT)?)\b", command.synopsis) is not None
        return another and command.most == ANY and not command.parse

    def arguments(self, command: Command) -> tuple[list[str], str]:
        """Return the kind of completion for each argument, and for all further ones; "" for none.

        A command with its own parser (images alternate with their options) accepts its arguments in
        any number, so each kind is listed once.
        """
        by = self.manual.COMPLETED_BY
        words = [word for word in command.synopsis.split() if not re.match(r"\W*-", word)]
        names = [word.strip("[].") for word in words]
        if command.parse:
            names = list(dict.fromkeys(one for one in names if one in by))
        kinds = [by.get(one, "") for one in names]
        if command.name in self.manual.NEW_CONTAINER:
            kinds = ["" if kind == "container" else kind for kind in kinds]
        any_number = command.most == ANY and not self.runs_another(command)
        return kinds, kinds[-1] if (command.parse or any_number) and kinds else ""


def with_commands(definition: Definition, summary: str, root: str, manual: Manual) -> Program:
    """Return a program with commands, from the definition that its own parser uses."""
    package = definition.package.replace(".", "/")
    groups = definition.shown_groups()
    return Program(definition.name, summary, package, root, definition.options, groups, manual)


PROGRAMS = (
    with_commands(
        RUNTIME,
        "run containers as the OCI runtime specification describes them",
        "root",
        runtime_manual,
    ),
    with_commands(PODS, "run pods of apps from container images", "dir", pod_manual),
    with_commands(CLIENT, "manage containers", "socket", client_manual),
    Program(
        "ocid",
        daemon_options.SUMMARY,
        "ociruntime/manager/daemon",
        "root",
        daemon_options.OPTIONS,
        [],
        daemon_manual,
    ),
)
