"""The commands and options of every program are well-formed, and their help is readable."""

from __future__ import annotations

import re
import shlex
from dataclasses import fields

import pytest

from ociruntime import __version__
from ociruntime.base.errors import UsageError
from ociruntime.base.paths import is_below
from ociruntime.commandline.help import command_help
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.parser import Arguments
from ociruntime.commandline.program import Program
from ociruntime.manager.client import command_table as client_commands
from ociruntime.manager.client import options as client_options
from ociruntime.manager.daemon import options as daemon_options
from ociruntime.pods.cli import command_table as pod_commands
from ociruntime.pods.manifest.app_options import APP_OPTIONS
from ociruntime.pods.manifest.request import AppRequest, SandboxRequest
from ociruntime.runtime.cli import help as runtime_help
from ociruntime.runtime.lifecycle.state_root import state_root
from tests.support import project

RUNTIME = runtime_help.PROGRAM
PODS = pod_commands.PROGRAM
CLIENT = client_commands.PROGRAM
PROGRAMS = (RUNTIME, PODS, CLIENT)
COMMANDS = [(program, command) for program in PROGRAMS for command in program.commands]
KINDS = {"flag", "text", "number", "count", "choice", "list", "optional", "joined", "refused"}
COLUMNS = 80
REQUESTS = (AppRequest, SandboxRequest)

EVERY_PROGRAM = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
EVERY_COMMAND = pytest.mark.parametrize(
    ("program", "command"),
    [pytest.param(*row, id=f"{row[0].name} {row[1].name}") for row in COMMANDS],
)


def assert_well_formed(options: tuple[Option, ...]) -> None:
    for option in options:
        assert option.kind in KINDS
        assert len(option.short) <= 1
        assert (option.value == "") == (option.kind == "flag")
        assert "|" in option.value or option.kind != "choice"
        assert option.help or not option.details


def help_of(program: Program, command: Command) -> str:
    return (
        runtime_help.help_of(command) if program is RUNTIME else command_help(program.name, command)
    )


@EVERY_COMMAND
def test_options_are_distinct_and_well_formed(program: Program, command: Command) -> None:
    spellings = [name for one in command.options for name in (one.name, one.short) if name]
    twice = {name for name in spellings if spellings.count(name) > 1}
    assert twice <= ({one.name for one in APP_OPTIONS} if command.parse else set())
    assert_well_formed(command.options)
    assert command.fewest <= command.most


@EVERY_PROGRAM
def test_names_are_distinct(program: Program) -> None:
    assert_well_formed(program.options)
    names = program.names
    assert len(names) == len(set(names))
    assert not program.first_words() & set(names), "a group has no command of its own"


@EVERY_PROGRAM
def test_aliases_lead_to_commands(program: Program) -> None:
    assert not set(program.aliases) & set(program.names)
    for alias, name in program.aliases.items():
        words = alias.split()
        assert program.find([*words, "--option"]) == (program.command(name), 2)
        shown = program.help_of(words[:1]).partition("\nsame as the command")[2]
        assert words[1] in shown.replace(",", "").split()


def test_an_unknown_second_word_is_named_with_the_first() -> None:
    with pytest.raises(UsageError, match='unknown command "container nope"'):
        CLIENT.find(["container", "nope"])


@pytest.mark.parametrize("argv", [["--version"], ["-v"], ["ps", "--version"]])
def test_the_version(argv: list[str]) -> None:
    assert CLIENT.read(argv, Arguments(as_runc=False), []) == f"ocictl {__version__}\n"


@EVERY_PROGRAM
def test_every_defined_command_is_in_a_group(program: Program) -> None:
    defined = []
    for module in {name for modules in program.groups.values() for name in modules}:
        loaded = __import__(f"{program.package}.{module}", None, None, ("COMMANDS",))
        defined += [command.name for command in loaded.COMMANDS]
    assert sorted(defined) == sorted(program.names)


@EVERY_COMMAND
def test_only_internal_commands_lack_a_summary(program: Program, command: Command) -> None:
    internal = [name for names in program.groups.get("", {}).values() for name in names]
    assert (command.summary == "") == (command.name in internal)


@EVERY_COMMAND
def test_help_of_a_command_fits(program: Program, command: Command) -> None:
    lines = help_of(program, command).splitlines()
    assert lines[0].startswith(f"usage: {program.name} {command.name}")
    assert max(map(len, lines)) <= COLUMNS
    words = {word.strip(",").partition("[")[0] for line in lines for word in line.split()}
    shown = {f"--{one.name}" for one in command.options if one.help}
    hidden = {f"--{one.name}" for one in command.options if not one.help} - shown
    assert shown <= words
    assert not hidden & words


@EVERY_COMMAND
def test_groups_of_options(program: Program, command: Command) -> None:
    """Each option of a group exists, is in one group only, and is shown below its title."""
    names = [name for _, group in command.option_groups for name in group]
    assert len(names) == len(set(names))
    assert set(names) <= {one.name for one in command.options if one.help}
    text = help_of(program, command)
    for title, group in command.option_groups:
        part = text.partition(f"\n{title}:\n")[2].partition("\n\n")[0]
        shown = [word for line in part.splitlines() for word in line.split() if word[:2] == "--"]
        assert set(shown) == {f"--{name}" for name in group}


@pytest.mark.parametrize("command", RUNTIME.commands, ids=lambda command: command.name)
def test_help_of_the_runtime_fits_a_screen(command: Command) -> None:
    lines = runtime_help.help_of(command).splitlines()
    assert len(lines) <= (40 if command.name in ("checkpoint", "restore") else 30)
    assert command.examples


@EVERY_PROGRAM
def test_general_help_fits_and_names_everything(program: Program) -> None:
    text = runtime_help.help_of(None) if program is RUNTIME else program.help_of([])
    assert max(map(len, text.splitlines())) <= COLUMNS
    for command in program.commands:
        assert (f"\n  {command.name} " in text) == bool(command.summary)
    for option in program.options:
        assert (f"--{option.name}" in text) == bool(option.help)


EXAMPLES = [
    pytest.param(program, command, line, id=line)
    for program, command in COMMANDS
    for _, text in command.examples
    for line in [re.sub(r"^\w+=\$\((.*)\)$", r"\1", text.replace("\\\n", " "))]
]


@pytest.mark.parametrize(("program", "command", "line"), EXAMPLES)
def test_examples_are_understood(program: Program, command: Command, line: str) -> None:
    """Each names its command, and only options that exist."""
    parts = re.split(r"\|\s|[<>]|&&", line)
    words = shlex.split(next(part for part in parts if f"{program.name} " in part))
    words = words[words.index(program.name) + 1 :]
    arguments = Arguments(as_runc=False)
    found: list[str] = []
    request = program.read(words, arguments, found)
    assert isinstance(request, tuple)
    assert found == [request[0].name]
    assert command.name in line


@EVERY_PROGRAM
def test_every_option_is_read(program: Program) -> None:
    """Its name occurs in quotes, besides its definition, or it is a field of a request."""
    folders = {
        "ociruntime": ("runtime/cli", "runtime/lifecycle/checkpoint"),
        "ocipod": ("pods",),
        "ocictl": ("manager/client",),
    }[program.name] + ("commandline",)
    paths = [path for each in folders for path in (project.PACKAGE / each).rglob("*.py")]
    sources = "".join(path.read_text() for path in sorted(paths))
    sources = re.sub(r'Option\(\s*"[\w-]+"', "", sources)
    options = {one.name for one in program.options}
    options |= {one.name for command in program.commands for one in command.options if one.help}
    unread = {name for name in options if f'"{name}"' not in sources}
    unread -= {one.name.replace("_", "-") for kind in REQUESTS for one in fields(kind)}
    # `prepare` prints nothing but the UUID anyway; `Program` and the main modules ask for help.
    # `run --init` has nothing to do.
    assert unread <= {"quiet", "help", "init"}


def test_the_socket_is_not_in_the_state_root() -> None:
    """It would be a container's directory there: ``ocid.sock`` is a valid id."""
    assert client_options.SOCKET == daemon_options.SOCKET
    assert not is_below(client_options.SOCKET, state_root("", {}, 0))
    unit = project.ROOT / "packaging" / "systemd" / "ocid.socket"
    assert f"ListenStream={client_options.SOCKET}\n" in unit.read_text(encoding="utf-8")
