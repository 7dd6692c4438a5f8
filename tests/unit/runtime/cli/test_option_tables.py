"""The tables hold together, and the help made from them can be read."""

from __future__ import annotations

import importlib.util
import re
import shlex

import pytest

from ociruntime.commandline.options import ANY
from ociruntime.commandline.parser import Arguments, parse
from ociruntime.runtime.cli import manual
from ociruntime.runtime.cli.help import command_help, general_help
from ociruntime.runtime.cli.options import COMMANDS, GLOBAL_OPTIONS
from tests.support import project

NAMES = [command[0] for command in COMMANDS]
KINDS = {"flag", "text", "number", "choice", "list"}


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
    assert importlib.util.find_spec(f"ociruntime.runtime.cli.{name}") is not None


@pytest.mark.parametrize("name", NAMES)
def test_help_of_a_command_fits_a_screen(name: str) -> None:
    lines = command_help(name).splitlines()
    assert lines[0].startswith(f"usage: ociruntime {name}")
    assert len(lines) <= (40 if name in ("checkpoint", "restore") else 30)
    assert max(map(len, lines)) <= 80


def test_every_command_is_in_one_group() -> None:
    """runtime/cli/manual.py puts them into groups, and has an example for each."""
    grouped = [name for _, names in manual.GROUPS for name in names]
    assert sorted(grouped) == sorted(NAMES), "GROUPS in runtime/cli/manual.py"
    assert set(manual.EXAMPLES) == {"", *NAMES}, "EXAMPLES in runtime/cli/manual.py"


def test_general_help_fits_a_screen_and_names_everything() -> None:
    text = general_help()
    lines = text.splitlines()
    assert len(lines) <= 48
    assert max(map(len, lines)) <= 80
    for name in NAMES:
        assert f"\n  {name}" in text
    for option in GLOBAL_OPTIONS:
        assert (f"--{option[0]}" in text) == bool(option[4])


def test_what_the_manual_adds_belongs_to_something() -> None:
    known = {("", option[0]) for option in GLOBAL_OPTIONS}
    known |= {(command[0], option[0]) for command in COMMANDS for option in command[5]}
    assert set(manual.MORE) <= known
    assert set(manual.NOT_COMPLETED) <= known
    assert set(manual.NEW_CONTAINER) <= set(NAMES)
    assert set(manual.OWN_EXIT_STATUS) <= set(NAMES)


@pytest.mark.parametrize("name", ["", *NAMES])
def test_examples_are_understood(name: str) -> None:
    """Each names its command and only options that there are."""
    for _, line in manual.EXAMPLES[name]:
        parts = [shlex.split(part) for part in re.split(r"[|<>]", line)]
        words = next(part for part in parts if part[0] == "ociruntime")
        command = next(command for command in COMMANDS if command[0] == words[1])
        if name:
            assert name in line.split()
        arguments = Arguments()
        tables = (command[5], GLOBAL_OPTIONS)
        mixed = command[3] != ANY
        rest = words[2:]
        rest = rest[parse(rest, tables, arguments, mixed=mixed) :]
        assert command[2] <= len(arguments.positional + rest) <= command[3]


def test_every_option_is_read_by_somebody() -> None:
    """By its name in quotes."""
    sources = "".join(
        path.read_text()
        for path in sorted((project.PACKAGE / "runtime" / "cli").glob("*.py"))
        if path.name != "options.py"
    )
    options = {option[0] for option in GLOBAL_OPTIONS}
    options |= {option[0] for command in COMMANDS for option in command[5]}
    assert {name for name in options if f'"{name}"' not in sources} == set()


def test_hidden_options_are_not_shown() -> None:
    assert "--usage" not in general_help()
    assert "--no-subreaper" not in command_help("create")
    assert "--no-subreaper" in command_help("run")
