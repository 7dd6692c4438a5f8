"""Wrong words on the command line, for every command there is: one line, nothing done."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ociruntime.commandline.options import ANY
from ociruntime.runtime.cli.help import PROGRAM
from ociruntime.runtime.cli.options import GLOBAL_OPTIONS
from tests.support import project
from tests.support.runtime import Result, execute

LAUNCHER = project.ROOT / ".venv/bin/ociruntime"
INTERPRETED = [sys.executable, "-I", "-S", "-B", project.PACKAGE / "__main__.py"]
BY_NAME = {command.name: command for command in PROGRAM.commands}
# What each understands: its own options, and behind them those of every command.
OPTIONS = {
    name: {option.name: option.kind for option in (*GLOBAL_OPTIONS, *command.options)}
    for name, command in BY_NAME.items()
}


def of_kind(*kinds: str) -> list[tuple[str, str]]:
    """(command, option)."""
    return [
        (name, option)
        for name, options in OPTIONS.items()
        for option, kind in options.items()
        if kind in kinds
    ]


ON_CONTAINERS = [name for name, command in BY_NAME.items() if command.synopsis.startswith("ID")]
NEW = ("create", "run", "restore")
BAD_IDS = ["", ".", "..", ".hidden", "a/b", "a b", "a\nb", "ä", "x" * 241]
# What a command needs besides its ID before it looks for the container.
FURTHER = {"exec": ["true"], "update": ["--pids-limit=9"]}


@pytest.fixture(scope="module", autouse=True)
def _snapshot(request: pytest.FixtureRequest) -> None:
    """Let commands start from a snapshot: without one they take ten times as long."""
    if os.geteuid() == 0 and LAUNCHER.exists():
        request.getfixturevalue("isolated")
        subprocess.run([LAUNCHER, "snapshot", "make"], stdout=subprocess.DEVNULL, check=True)


def run(place: Path, *words: str) -> Result:
    command = [LAUNCHER] if LAUNCHER.exists() else INTERPRETED
    return execute([*map(str, command), "--root", str(place / "state"), *words], cwd=place)


def refused(result: Result, name: str) -> str:
    """The message, of one line; the status is 1, with exec 255 once its own work has begun."""
    assert result.status in ((1, 255) if name == "exec" else (1,)), result
    assert result.out == ""
    assert "internal error" not in result.err
    return result.message


@pytest.mark.parametrize("name", [name for name, command in BY_NAME.items() if command.fewest])
def test_too_few_arguments(name: str, tmp_path: Path) -> None:
    assert f'"{name}" requires ' in refused(run(tmp_path, name), name)


@pytest.mark.parametrize("name", [name for name, command in BY_NAME.items() if command.most != ANY])
def test_too_many_arguments(name: str, tmp_path: Path) -> None:
    most = BY_NAME[name].most
    said = refused(run(tmp_path, name, *["a"] * (most + 1)), name)
    assert f'"{name}" requires ' in said
    assert f"{most + 1} given" in said


@pytest.mark.parametrize("name", BY_NAME)
def test_unknown_option(name: str, tmp_path: Path) -> None:
    said = refused(run(tmp_path, name, "--nonesuch"), name)
    assert said == "flag provided but not defined: -nonesuch"


@pytest.mark.parametrize(("name", "option"), of_kind("text", "number", "choice", "list"))
def test_missing_value(name: str, option: str, tmp_path: Path) -> None:
    said = refused(run(tmp_path, name, f"--{option}"), name)
    assert said == f"flag needs an argument: -{option}"


@pytest.mark.parametrize(("name", "option"), of_kind("choice"))
def test_no_such_choice(name: str, option: str, tmp_path: Path) -> None:
    said = refused(run(tmp_path, name, f"--{option}=nonesuch"), name)
    assert said.startswith(f'invalid {option}: "nonesuch" (')


@pytest.mark.parametrize(("name", "option"), of_kind("number"))
def test_no_number(name: str, option: str, tmp_path: Path) -> None:
    said = refused(run(tmp_path, name, f"--{option}=many"), name)
    assert said == f'invalid value "many" for flag -{option} (use a decimal number)'


@pytest.mark.parametrize("id", BAD_IDS)
@pytest.mark.parametrize("name", ON_CONTAINERS)
def test_bad_id(name: str, id: str, tmp_path: Path) -> None:
    said = refused(run(tmp_path, name, id, *FURTHER.get(name, [])), name)
    assert said.startswith("invalid container ID format: " if id else "container id cannot be")


@pytest.mark.parametrize("name", [name for name in ON_CONTAINERS if name not in NEW])
def test_missing_container(name: str, tmp_path: Path) -> None:
    said = refused(run(tmp_path, name, "nonesuch", *FURTHER.get(name, [])), name)
    assert "nonesuch" in said
    assert "does not exist" in said


@pytest.mark.parametrize("name", ["create", "run"])
def test_missing_bundle(name: str, tmp_path: Path) -> None:
    said = refused(run(tmp_path, name, "--bundle", "nowhere", "c1"), name)
    assert "nowhere" in said
    assert "no such file or directory" in said or "not found" in said


def test_standard_input_cannot_be_read(tmp_path: Path) -> None:
    words = ["--root", str(tmp_path / "state"), "update", "--resources", "-", "c1"]
    program = [sys.executable, "-I", "-S", "-B", str(project.PACKAGE / "__main__.py")]
    unreadable = os.open("/dev/null", os.O_WRONLY)
    try:
        result = execute([*program, *words], stdin=unreadable)
    finally:
        os.close(unreadable)
    assert refused(result, "update") == "read standard input: bad file descriptor"


def test_unknown_command(tmp_path: Path) -> None:
    result = run(tmp_path, "crate")
    assert (result.status, result.out) == (3, "")
    assert result.message == 'unknown command "crate" (did you mean create?)'


def test_nothing_is_printed_into_a_closed_pipe(tmp_path: Path) -> None:
    """The reader has gone: no message, no traceback."""
    program = [sys.executable, "-I", "-S", "-B", str(project.PACKAGE / "__main__.py"), "--help"]
    with subprocess.Popen(["true"], stdin=subprocess.PIPE) as reader:
        reader.wait()
        done = subprocess.run(program, stdout=reader.stdin, stderr=subprocess.PIPE, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, b"")
