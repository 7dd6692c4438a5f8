"""What holds of the tables of every program whose commands may have several words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from ociruntime.commandline.options import Command, Option

KINDS = {"flag", "text", "number", "choice", "list", "optional"}


def assert_well_formed(options: Sequence[Option]) -> None:
    for _, short, kind, value, _ in options:
        assert kind in KINDS
        assert len(short) <= 1
        assert (value == "") == (kind == "flag")
        assert "|" in value or kind != "choice"


def assert_distinct(names: Sequence[str]) -> None:
    assert len(names) == len(set(names))
    firsts = {name.partition(" ")[0] for name in names if " " in name}
    assert not firsts & set(names), "a group has no command of its own"


def assert_of_these(
    manual: ModuleType, commands: Sequence[Command], global_options: Sequence[Option]
) -> None:
    """What ``manual`` adds belongs to an option or a command for people."""
    known = {("", option[0]) for option in global_options}
    known |= {(command[0], option[0]) for command in commands for option in command[5]}
    assert set(manual.MORE) <= known
    assert set(manual.NOT_COMPLETED) <= known
    shown = [command[0] for command in commands if command[4]]
    assert {*manual.EXAMPLES, *manual.OWN_EXIT_STATUS} <= {"", *shown}
