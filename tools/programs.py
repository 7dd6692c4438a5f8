"""The programs that have manual pages and completions, with their tables."""

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
from ociruntime.manager.client.options import PROGRAM as CLIENT  # noqa: E402
from ociruntime.manager.daemon import manual as daemon_manual  # noqa: E402
from ociruntime.manager.daemon import options as daemon_options  # noqa: E402
from ociruntime.pods.cli import manual as pod_manual  # noqa: E402
from ociruntime.pods.cli.options import PROGRAM as PODS  # noqa: E402
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
    """The contents of ``runtime/cli/manual.py`` and ``pods/cli/manual.py``, described there."""

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

    ``groups`` are titles with the commands that the help shows. ``root`` is the option for the
    directory with the objects that the program lists.
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
        """Return commands of one word, and the first words of the others, each once."""
        return list(dict.fromkeys(command.name.partition(" ")[0] for command in self.commands))

    @property
    def members(self) -> dict[str, list[Command]]:
        """Return a map of first words to the commands that have a second one."""
        found: dict[str, list[Command]] = {}
        for command in self.commands:
            first, blank, _ = command.name.partition(" ")
            if blank:
                found.setdefault(first, []).append(command)
        return found

    def page(self, command: str) -> str:
        """The name of a command's manual page: ``ocipod-image-list``."""
        return f"{self.name}-{command.replace(' ', '-')}"

    def usage(self, command: Command) -> tuple[str, str]:
        """``ocipod image list``, and what may follow."""
        return usage(self.name, command)

    def option_sections(self, command: Command) -> list[tuple[str, tuple[Option, ...]]]:
        """The command's options below the titles of its manual page."""
        of_app = tuple(option for option in command.options if option in APP_OPTIONS)
        if not command.parse or not of_app:
            return [("OPTIONS", command.options)]
        others = tuple(option for option in command.options if option not in of_app)
        return [("OPTIONS", others), ("OPTIONS OF AN APP", of_app)]

    def runs_another(self, command: Command) -> bool:
        """Return true if the first argument ends the options because another program's arguments
        follow.
        """
        another = re.search(r"\b(COMMAND|PROGRAM|ARG(UMENT)?)\b", command.synopsis) is not None
        return another and command.most == ANY and not command.parse

    def arguments(self, command: Command) -> tuple[list[str], str]:
        """Return the kind that completes each argument, and any further ones; "" for none.

        Where images and their options alternate, each kind of argument may be repeated.
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
    """Return a program that has commands."""
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
