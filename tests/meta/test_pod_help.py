"""What ``ocipod --help`` and the help of each command look like: a screen has 24 lines."""

from __future__ import annotations

import pytest

from ociruntime.cli.screens import two_columns
from ociruntime.ocipod.help import command_help, general_help
from ociruntime.ocipod.options import COMMANDS

LINES = 24
COLUMNS = 80
# The lines of those that have more to say.
LONGER: dict[str, int] = {}

SHOWN = [command for command in COMMANDS if command[4]]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_command_fits(command: tuple[str, ...]) -> None:
    lines = command_help(command).splitlines()  # type: ignore[arg-type]  # a row of the table
    assert max(map(len, lines)) <= COLUMNS
    assert len(lines) <= LONGER.get(command[0], LINES)


def test_all_fit() -> None:
    lines = general_help().splitlines()
    assert max(map(len, lines)) <= COLUMNS
    assert len(lines) <= LINES


def test_every_command_is_named() -> None:
    words = general_help().split()
    assert {word for command in SHOWN for word in command[0].split()} <= set(words)


def test_two_columns() -> None:
    long = "x" * 60
    assert two_columns(["a", "b", "c"]) == [f"  a{' ' * 38}b", "  c"]
    assert two_columns(["a", long, "b"]) == ["  a", f"  {long}", "  b"]
    assert two_columns([]) == []
