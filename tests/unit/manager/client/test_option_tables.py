"""The tables of ``ocictl`` hold together, and its help fits 80 columns."""

from __future__ import annotations

import importlib.util
import shlex

import pytest

from ociruntime.base.paths import is_below
from ociruntime.commandline.commands import find
from ociruntime.commandline.help import shown_groups
from ociruntime.commandline.parser import Arguments, parse
from ociruntime.manager.client import manual, options
from ociruntime.manager.client.help import command_help, general_help
from ociruntime.manager.client.main import _read_options
from ociruntime.manager.client.options import COMMANDS, GLOBAL_OPTIONS, GROUPS
from ociruntime.manager.daemon import options as ocid_options
from ociruntime.runtime.lifecycle.options import state_root
from tests.support import project
from tests.support.option_tables import assert_distinct, assert_of_these, assert_well_formed

NAMES = [command[0] for command in COMMANDS]
SHOWN = [command[0] for command in COMMANDS if command[4]]
COLUMNS = 80


@pytest.mark.parametrize("command", COMMANDS, ids=NAMES)
def test_options_of_a_command_are_distinct_and_well_formed(command: tuple[object, ...]) -> None:
    options = command[5]
    assert isinstance(options, tuple)
    names = [name for option in (*options, *GLOBAL_OPTIONS) for name in option[:2] if name]
    assert len(names) == len(set(names))
    assert_well_formed((*options, *GLOBAL_OPTIONS))


def test_names_are_distinct() -> None:
    assert_distinct(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_its_module(name: str) -> None:
    module = name.replace(" ", "_").replace("-", "_")
    assert importlib.util.find_spec(f"ociruntime.manager.client.{module}") is not None


def test_what_the_manual_adds_belongs_to_something() -> None:
    assert_of_these(manual, COMMANDS, GLOBAL_OPTIONS)


EXAMPLES = [line for lines in manual.EXAMPLES.values() for _, line in lines]


@pytest.mark.parametrize("line", EXAMPLES)
def test_examples_can_be_read(line: str) -> None:
    for command_line in line.split(" && "):
        program, *words = shlex.split(command_line)
        assert program == "ocictl"
        arguments = Arguments()
        at = parse(words, (GLOBAL_OPTIONS,), arguments, mixed=False)
        command, used = find(words[at:], COMMANDS, "ocictl")
        _read_options(words[at + used :], command, arguments)
        least = 0 if arguments.text("rootfs") else command[2]
        assert least <= len(arguments.positional) <= command[3]


@pytest.mark.parametrize("command", COMMANDS, ids=NAMES)
def test_help_of_a_command_fits(command: tuple[str, ...]) -> None:
    lines = command_help(command).splitlines()  # type: ignore[arg-type]  # a row of the table
    assert max(map(len, lines)) <= COLUMNS
    shown = [option[0] for option in command[5] if option[4]]
    assert all(f"--{name}" in "\n".join(lines) for name in shown)


def test_general_help_fits_and_names_everything() -> None:
    text = general_help()
    assert max(map(len, text.splitlines())) <= COLUMNS
    assert all(f"\n  {name} " in text for name in SHOWN)


def test_every_command_for_people_is_in_one_group() -> None:
    assert [command[0] for _, commands in shown_groups(GROUPS) for command in commands] == SHOWN


def test_the_socket_is_not_in_the_state_root() -> None:
    """There it would be a container's directory: ``ocid.sock`` is a valid id."""
    assert options.SOCKET == ocid_options.SOCKET
    assert not is_below(options.SOCKET, state_root("", {}, 0))
    unit = project.ROOT / "packaging" / "systemd" / "ocid.socket"
    assert f"ListenStream={options.SOCKET}\n" in unit.read_text(encoding="utf-8")
