"""``ocipod``: from argv to an exit status and one line of error."""

from __future__ import annotations

import types
from pathlib import Path

import pytest

from ociruntime.base.errors import PodError
from ociruntime.pods.cli.command_table import PROGRAM
from ociruntime.pods.cli.main import main

Capture = pytest.CaptureFixture[str]


def failing(argv: list[str], capfd: Capture) -> str:
    """Return the error line of a failing command."""
    assert main(argv) == 254
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("ocipod: ")
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize(
    "argv",
    [["--help"], ["-h"], ["help"], ["list", "--help"], ["help", "app", "list"], ["run", "-h"]],
)
def test_help_goes_to_standard_output(argv: list[str], capfd: Capture) -> None:
    assert main(argv) == 0
    out, err = capfd.readouterr()
    assert out.startswith("usage: ocipod")
    assert err == ""


def test_no_command(capfd: Capture) -> None:
    assert main([]) == 2
    assert capfd.readouterr().out.startswith("usage: ocipod")


def test_help_of_a_group_names_its_commands(capfd: Capture) -> None:
    for argv in (["app", "--help"], ["help", "app"]):
        assert main(argv) == 0
        out = capfd.readouterr().out
        assert out.startswith("usage: ocipod app COMMAND")
        assert "app exec" in out


def test_unknown_command(capfd: Capture) -> None:
    assert 'unknown command "bogus"' in failing(["bogus"], capfd)
    assert "unknown option --version" in failing(["--version"], capfd)
    assert "did you mean list?" in failing(["lsit"], capfd)
    assert 'unknown command "app bogus"' in failing(["app", "bogus"], capfd)


def test_group_without_a_command(capfd: Capture) -> None:
    line = failing(["app"], capfd)
    assert '"app" needs a command' in line
    assert "exec" in line


def test_beginnings_of_commands(capfd: Capture) -> None:
    assert main(["ver"]) == 0
    assert capfd.readouterr().out.startswith("ocipod: ")
    line = failing(["st"], capfd)
    assert 'command "st" is ambiguous' in line
    assert "status stop" in line
    assert '"app st" is ambiguous' not in line


def test_hidden_commands_have_no_beginning(capfd: Capture) -> None:
    assert 'unknown command "moni"' in failing(["moni"], capfd)


def test_number_of_arguments(capfd: Capture) -> None:
    line = failing(["version", "more"], capfd)
    assert '"version": ' in line
    assert "(usage: ocipod version)" in line


def test_unknown_check_to_leave_out(capfd: Capture) -> None:
    line = failing(["--insecure-options=image,magic", "version"], capfd)
    assert "--insecure-options: " in line
    assert '"magic"' in line
    assert "all-fetch" in line


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("image list --fields=id,colour", 'unknown field "colour"'),
        ("image list --sort=colour", 'unknown field "colour"'),
        ("image cat-manifest --config --index box", "--config and --index"),
        ("trust key.asc", "--prefix or --root"),
    ],
)
def test_wrong_arguments(words: str, text: str, tmp_path: Path, capfd: Capture) -> None:
    """They are refused before anything is created."""
    assert text in failing([f"--dir={tmp_path / 'data'}", *words.split()], capfd)
    assert not (tmp_path / "data" / "pods").exists()


def raising(error: BaseException) -> types.FunctionType:
    def run(*arguments: object) -> int:
        raise error

    return run  # type: ignore[return-value]  # a function is one


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (PodError("pod 1 is gone", "look for another"), 254, "pod 1 is gone (look for another)"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (OSError(5, "Input/output error", "/a"), 254, 'version: "/a": input/output error'),
        (ValueError("a\nb"), 254, "internal error: ValueError: a b ("),
    ],
)
def test_how_errors_end(
    error: BaseException,
    status: int,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: Capture,
) -> None:
    monkeypatch.setattr(PROGRAM.command("version"), "run", raising(error))
    assert main(["version"]) == status
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith(f"ocipod: {text}")
    assert err.count("\n") == 1
    assert main(["--debug", "version"]) == status
    assert "Traceback" in capfd.readouterr().err


@pytest.mark.parametrize("value", ["1", "1:x", "5:4", ":"])
def test_limits_of_descriptors_that_cannot_be_set(value: str, capfd: Capture) -> None:
    assert f'--nofile: "{value}": ' in failing([f"--nofile={value}", "version"], capfd)
