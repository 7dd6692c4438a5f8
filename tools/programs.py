"""The programs that have manual pages and completions, with their tables."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from ociruntime.commandline.help import shown_groups, usage_words  # noqa: E402
from ociruntime.commandline.options import ANY  # noqa: E402
from ociruntime.manager.client import manual as client_manual  # noqa: E402
from ociruntime.manager.client import options as client_options  # noqa: E402
from ociruntime.manager.daemon import manual as daemon_manual  # noqa: E402
from ociruntime.manager.daemon import options as daemon_options  # noqa: E402
from ociruntime.pods.cli import manual as pod_manual  # noqa: E402
from ociruntime.pods.cli import options as pod_options  # noqa: E402
from ociruntime.pods.manifest.app_options import APP_OPTIONS  # noqa: E402
from ociruntime.runtime.cli import manual as runtime_manual  # noqa: E402
from ociruntime.runtime.cli import options as runtime_options  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ociruntime.commandline.help import Groups
    from ociruntime.commandline.options import Command, Option

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
    def OWN_EXIT_STATUS(self) -> Mapping[str, Terms]: ...  # noqa: N802
    @property
    def EXAMPLES(self) -> Mapping[str, Terms]: ...  # noqa: N802
    @property
    def MORE(self) -> Mapping[tuple[str, str], str]: ...  # noqa: N802
    @property
    def LISTED(self) -> Mapping[str, str]: ...  # noqa: N802
    @property
    def COMPLETED_BY(self) -> Mapping[str, str]: ...  # noqa: N802
    @property
    def NOT_COMPLETED(self) -> tuple[tuple[str, str], ...]: ...  # noqa: N802
    @property
    def NEW_CONTAINER(self) -> tuple[str, ...]: ...  # noqa: N802
    def more(self, command: str, option: str) -> str: ...


@dataclass(frozen=True)
class Program:
    """A program with its tables.

    ``groups`` are titles with the names of the commands that the help shows. ``root`` is the option
    for the directory with the objects that the program lists. For the commands in ``raw``, options
    and images alternate, with words passed through between ``--`` and ``---``; ``app_options``
    belong to the preceding image.
    """

    name: str
    summary: str
    package: str
    root: str
    tables: tuple[Command, ...]
    options: tuple[Option, ...]
    groups: tuple[tuple[str, tuple[str, ...]], ...]
    manual: Manual
    raw: tuple[str, ...] = ()
    app_options: tuple[Option, ...] = ()

    @property
    def commands(self) -> tuple[Command, ...]:
        """Return the commands that the help shows."""
        return tuple(command for command in self.tables if command[4])

    @property
    def first_words(self) -> list[str]:
        """Return commands of one word, and the first words of the others, each once."""
        return list(dict.fromkeys(command[0].partition(" ")[0] for command in self.commands))

    @property
    def members(self) -> dict[str, list[Command]]:
        """Return a map of first words to the commands that have a second one."""
        found: dict[str, list[Command]] = {}
        for command in self.commands:
            first, blank, _ = command[0].partition(" ")
            if blank:
                found.setdefault(first, []).append(command)
        return found

    def page(self, command: str) -> str:
        """The name of a command's manual page: ``ocipod-image-list``."""
        return f"{self.name}-{command.replace(' ', '-')}"

    def usage(self, command: Command) -> tuple[str, str]:
        """``ocipod image list``, and what may follow."""
        return usage_words(command, self.name)

    def option_sections(self, command: Command) -> list[tuple[str, tuple[Option, ...]]]:
        """The command's options below the titles of its manual page."""
        name, table = command[0], command[5]
        if name not in self.raw:
            return [("OPTIONS", table)]
        of_app = tuple(option for option in table if option in self.app_options)
        others = tuple(option for option in table if option not in of_app)
        return [("OPTIONS", others), ("OPTIONS OF AN APP", of_app)]

    def runs_another(self, command: Command) -> bool:
        """Return true if the first argument ends the options because another program's arguments
        follow.
        """
        name, synopsis, _, most, *_ = command
        another = re.search(r"\b(COMMAND|PROGRAM|ARG(UMENT)?)\b", synopsis) is not None
        return another and most == ANY and name not in self.raw

    def arguments(self, command: Command) -> tuple[list[str], str]:
        """Return the kind that completes each argument, and any further ones; "" for none."""
        name, synopsis, _, most, *_ = command
        by = self.manual.COMPLETED_BY
        words = [word for word in synopsis.split() if not re.match(r"\W*-", word)]
        names = [word.strip("[].") for word in words]
        if name in self.raw:
            names = list(dict.fromkeys(one for one in names if one in by))
        kinds = [by.get(one, "") for one in names]
        if name in self.manual.NEW_CONTAINER:
            kinds = ["" if kind == "container" else kind for kind in kinds]
        repeated = name in self.raw or (most == ANY and not self.runs_another(command))
        return kinds, kinds[-1] if repeated and kinds else ""


def named_groups(groups: Groups) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Titles with the names of the commands that the help shows."""
    return tuple(
        (title, tuple(command[0] for command in commands))
        for title, commands in shown_groups(groups)
    )


PROGRAMS = (
    Program(
        "ociruntime",
        "run containers as the OCI runtime specification describes them",
        "ociruntime/runtime/cli",
        "root",
        runtime_options.COMMANDS,
        runtime_options.GLOBAL_OPTIONS,
        runtime_manual.GROUPS,
        runtime_manual,
    ),
    Program(
        "ocipod",
        "run pods of apps from container images",
        "ociruntime/pods/cli",
        "dir",
        pod_options.COMMANDS,
        pod_options.GLOBAL_OPTIONS,
        named_groups(pod_options.GROUPS),
        pod_manual,
        pod_options.RAW,
        APP_OPTIONS,
    ),
    Program(
        "ocictl",
        "manage containers",
        "ociruntime/manager/client",
        "socket",
        client_options.COMMANDS,
        client_options.GLOBAL_OPTIONS,
        named_groups(client_options.GROUPS),
        client_manual,
    ),
    Program(
        "ocid",
        daemon_options.SUMMARY,
        "ociruntime/manager/daemon",
        "root",
        (),
        daemon_options.OPTIONS,
        (),
        daemon_manual,
    ),
)
