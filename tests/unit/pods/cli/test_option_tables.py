"""The tables of ``ocipod`` hold together, and the manual says nothing of what is not in them."""

from __future__ import annotations

import importlib.util
import re
import shlex

import pytest

from ociruntime.commandline.help import shown_groups
from ociruntime.commandline.parser import Arguments, parse
from ociruntime.pods.cli import manual
from ociruntime.pods.cli.options import COMMANDS, GLOBAL_OPTIONS, GROUPS, INSIDE, RAW
from ociruntime.pods.manifest.app_options import APP_OPTIONS
from tests.support import project
from tests.support.option_tables import assert_distinct, assert_of_these, assert_well_formed

NAMES = [command[0] for command in COMMANDS]
SHOWN = [command[0] for command in COMMANDS if command[4]]
# Names that an option of the pod and one of its apps have.
SHARED = {option[0] for option in APP_OPTIONS}


@pytest.mark.parametrize("command", COMMANDS, ids=NAMES)
def test_options_of_a_command_are_distinct_and_well_formed(command: tuple[object, ...]) -> None:
    options = command[5]
    assert isinstance(options, tuple)
    names = [name for option in options for name in option[:2] if name]
    twice = {name for name in names if names.count(name) > 1}
    assert twice <= (SHARED if command[0] in RAW else set())
    assert_well_formed((*options, *GLOBAL_OPTIONS))


def test_names_are_distinct() -> None:
    assert_distinct(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_its_module(name: str) -> None:
    module = name.replace(" ", "_").replace("-", "_")
    assert importlib.util.find_spec(f"ociruntime.pods.cli.{module}") is not None


def test_every_command_for_people_is_in_one_group() -> None:
    assert [command[0] for _, commands in shown_groups(GROUPS) for command in commands] == SHOWN


def test_what_the_manual_adds_belongs_to_something() -> None:
    assert_of_these(manual, COMMANDS, GLOBAL_OPTIONS)


@pytest.mark.parametrize("name", manual.EXAMPLES)
def test_examples_are_understood(name: str) -> None:
    """Each names its command and only options that there are."""
    for _, text in manual.EXAMPLES[name]:
        line = re.sub(r"^\w+=\$\((.*)\)$", r"\1", text.replace("\\\n", " "))
        words = shlex.split(next(part for part in re.split(r"\|\s", line) if "ocipod" in part))
        assert words[0] == "ocipod"
        arguments = Arguments()
        rest = words[1:]
        rest = rest[parse(rest, (GLOBAL_OPTIONS,), arguments, mixed=False) :]
        command = next(one for one in COMMANDS if rest[: len(one[0].split())] == one[0].split())
        assert name in ("", command[0])
        rest = rest[len(command[0].split()) :]
        if "--" in rest:
            rest = rest[: rest.index("--")]
        tables = (command[5], GLOBAL_OPTIONS)
        rest = rest[parse(rest, tables, arguments, mixed=command[0] not in INSIDE) :]
        assert command[2] <= len(arguments.positional + rest) <= command[3]


def test_every_option_is_read_by_somebody() -> None:
    """By its name in quotes, in a command or in what pods are made of."""
    sources = "".join(
        path.read_text()
        for path in sorted((project.PACKAGE / "pods").rglob("*.py"))
        if not path.name.startswith(("options", "app_options", "remarks", "manual"))
    )
    options = {option[0] for option in GLOBAL_OPTIONS}
    options |= {option[0] for command in COMMANDS for option in command[5] if option[4]}
    # prepare prints nothing but the UUID with or without it.
    assert {name for name in options if f'"{name}"' not in sources} <= {"quiet"}
