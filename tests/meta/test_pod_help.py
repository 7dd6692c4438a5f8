"""What ``ocipod --help`` and the help of each command look like."""

from __future__ import annotations

import pytest

from ociruntime.pods.cli.help import command_help, general_help
from ociruntime.pods.cli.options import COMMANDS

COLUMNS = 80

SHOWN = [command for command in COMMANDS if command[4]]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_command_fits(command: tuple[str, ...]) -> None:
    lines = command_help(command).splitlines()  # type: ignore[arg-type]  # a row of the table
    assert max(map(len, lines)) <= COLUMNS


def test_all_fit() -> None:
    lines = general_help().splitlines()
    assert max(map(len, lines)) <= COLUMNS


def test_every_command_is_named() -> None:
    words = general_help().split()
    assert {word for command in SHOWN for word in command[0].split()} <= set(words)
