"""docs/docker.md: its table comes from the commands themselves."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest

from ociruntime.base.errors import UsageError
from ociruntime.commandline.parser import Arguments, parse
from ociruntime.manager.client.command_table import PROGRAM
from tests.support import docker_commands, project

PAGE = project.ROOT / "docs" / "docker.md"
_BEGIN, _END = "<!-- the table -->\n\n", "\n<!-- end of the table -->"


def test_the_table_is_that_of_the_commands() -> None:
    """``DOCKER_PAGE=write`` updates it."""
    before, _, rest = PAGE.read_text().partition(_BEGIN)
    _, _, after = rest.partition(_END)
    page = f"{before}{_BEGIN}{docker_commands.table()}{_END}{after}"
    if os.environ.get("DOCKER_PAGE") == "write":
        PAGE.write_text(page)
    assert PAGE.read_text() == page


def test_every_command_is_explained() -> None:
    absent = {command for command in docker_commands.OPTIONS if not docker_commands.ours(command)}
    assert absent <= set(PROGRAM.absent)
    assert set(docker_commands.NOTES) <= set(docker_commands.OPTIONS) - absent
    # Each row is produced by lines that docker's client answers, too.
    assert set(docker_commands.SAME) == set(docker_commands.OPTIONS) - absent
    assert set(docker_commands.RENAMED.values()) <= set(PROGRAM.names)
    assert len(docker_commands.OPTIONS) == 60


@pytest.mark.parametrize("command", docker_commands.OPTIONS)
def test_options_that_do_not_work_are_refused_with_a_reason(command: str) -> None:
    """An unsupported option of docker's is refused with a reason, not as unknown."""
    _, lacking = docker_commands.known(command)
    name = docker_commands.ours(command)
    if not name:
        pytest.skip("a missing command")
    options = {option.name: option for option in PROGRAM.command(name).options}
    for option in lacking:
        assert option in options, f"{name} --{option}"
        with pytest.raises(UsageError) as refused:
            parse([f"--{option}=x"], (PROGRAM.command(name).options,), Arguments())
        assert str(refused.value) == f"--{option} is not supported ({options[option].value})"
        assert len(options[option].value.split()) > 3


@pytest.mark.parametrize("command", docker_commands.OPTIONS)
def test_docker_has_these_options(command: str) -> None:
    program = shutil.which("docker")
    if program is None:
        pytest.skip("docker is not installed")
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    if f"version {docker_commands.VERSION}." not in version.stdout:
        pytest.skip(f"docker is not version {docker_commands.VERSION}")
    words = [program, *command.split(), "--help"]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    found = re.findall(r"(?m)^ +(?:-., )? *--([a-z0-9-]+)", text)
    assert [one for one in found if one != "help"] == docker_commands.OPTIONS[command].split()
