"""The tables hold together, and the help made from them can be read."""

from __future__ import annotations

import importlib.util

import pytest

from ociruntime.cli.help import command_help, general_help
from ociruntime.cli.options import COMMANDS, GLOBAL_OPTIONS
from tests.support import project

NAMES = [command[0] for command in COMMANDS]
KINDS = {"flag", "text", "number", "choice"}


@pytest.mark.parametrize("command", COMMANDS, ids=NAMES)
def test_options_of_a_command_are_distinct_and_well_formed(command: tuple[object, ...]) -> None:
    options = command[5]
    assert isinstance(options, tuple)
    names = [name for option in options for name in option[:2] if name]
    assert len(names) == len(set(names))
    for _, short, kind, value, _ in (*options, *GLOBAL_OPTIONS):
        assert kind in KINDS
        assert len(short) <= 1
        assert (value == "") == (kind == "flag")
        assert ("|" in value) == (kind == "choice")


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_its_module(name: str) -> None:
    assert importlib.util.find_spec(f"ociruntime.cli.{name}") is not None


@pytest.mark.parametrize("name", NAMES)
def test_help_of_a_command_fits_a_screen(name: str) -> None:
    lines = command_help(name).splitlines()
    assert lines[0].startswith(f"usage: ociruntime {name}")
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80


def test_general_help_fits_a_screen_and_names_everything() -> None:
    text = general_help()
    lines = text.splitlines()
    assert len(lines) <= 36
    assert max(map(len, lines)) <= 80
    for name in NAMES:
        assert f"\n  {name}" in text
    for option in GLOBAL_OPTIONS:
        assert (f"--{option[0]}" in text) == bool(option[4])


def test_every_option_is_read_by_somebody() -> None:
    """By its name in quotes; what is accepted for the callers' sake alone is listed here."""
    ignored = {"criu"}
    sources = "".join(
        path.read_text()
        for path in sorted((project.PACKAGE / "cli").glob("*.py"))
        if path.name != "options.py"
    )
    options = {option[0] for option in GLOBAL_OPTIONS}
    options |= {option[0] for command in COMMANDS for option in command[5]}
    assert {name for name in options if f'"{name}"' not in sources} == ignored


def test_hidden_options_are_not_shown() -> None:
    assert "--criu" not in general_help()
    assert "--no-subreaper" not in command_help("create")
    assert "--no-subreaper" in command_help("run")
