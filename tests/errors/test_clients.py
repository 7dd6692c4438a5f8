"""Whole messages of the clients: wrong command lines, and a daemon that cannot be reached."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from ociruntime.base.errors import HostError, UsageError
from ociruntime.base.trusted_directories import make_directory
from ociruntime.commandline.options import Option
from ociruntime.commandline.parser import Arguments, parse
from ociruntime.manager.client.connection import _hint
from ociruntime.manager.client.main import main

Capture = pytest.CaptureFixture[str]

OPTIONS = (
    Option("bundle", "x", "DIR", short="b"),
    Option("force", "x", short="f"),
    Option("tty", "x", short="t"),
    Option("preserve-fds", "x", "N", kind="number"),
    Option("tail", "x", "N", kind="count"),
    Option("format", "x", "table|json", kind="choice"),
    Option("pid", value="leave it out", kind="refused"),
)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--bundle"], "--bundle requires a value (--bundle DIR)"),
        (["--force=maybe"], '--force: invalid value "maybe" (use true or false)'),
        (["--preserve-fds", "two"], '--preserve-fds: invalid value "two" (use a decimal number)'),
        (["--tail", "-1"], "--tail: must be 0 or more, not -1"),
        (["--format=xml"], '--format: invalid value "xml" (use table or json)'),
        (["--bogus"], "unknown option --bogus (--help lists the options)"),
        (["-tb"], "-b (--bundle) requires a value (--bundle DIR)"),
        (["-tx"], "unknown option -x in -tx (--help lists the options)"),
        (["--b=/b"], "unknown option --b (--help lists the options)"),
        (["--bun=/b"], "unknown option --bun (did you mean --bundle?)"),
        (["--pid=host"], "--pid is not supported (leave it out)"),
        (["--pid"], "--pid is not supported (leave it out)"),
    ],
)
def test_options(argv: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(argv, (OPTIONS,), Arguments(as_runc=False))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["sotp"], 'unknown command "sotp" (did you mean stop?)'),
        (["pod"], '"pod" needs a command (use one of ls rm stop)'),
        (["stop"], '"stop": wrong number of arguments (usage: ocictl stop CONTAINER...)'),
        (
            ["rename", "a"],
            '"rename": wrong number of arguments (usage: ocictl rename CONTAINER NAME)',
        ),
        (["kill", "-s", "TREM", "web"], 'unknown signal "TREM" (did you mean SIGTERM?)'),
        (["ps", "-n", "0"], "--last: must be 1 or more, not 0"),
    ],
)
def test_commands(argv: list[str], message: str, capfd: Capture) -> None:
    assert main(argv) == 1
    assert capfd.readouterr() == ("", f"ocictl: {message}\n")


def test_no_daemon(tmp_path: Path, capfd: Capture) -> None:
    path = tmp_path / "sock"
    hint = "(is ocid running? systemctl start ocid, or: ocid &)"
    assert main([f"--socket={path}", "ps"]) == 1
    message = f'ocictl: connect to ocid at "{path}": no such file or directory {hint}\n'
    assert capfd.readouterr() == ("", message)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    assert main([f"--socket={path}", "run", "-d", "x"]) == 125
    assert capfd.readouterr() == (
        "",
        f'ocictl: connect to ocid at "{path}": connection refused {hint}\n',
    )


def test_who_may_use_the_socket(tmp_path: Path) -> None:
    path = tmp_path / "sock"
    path.touch()
    denied = PermissionError(13, "Permission denied")
    if os.getuid() == 0:
        for_root = "only root may connect; `ocid --group=GROUP` admits a group"
        assert _hint(str(path), denied) == for_root
        os.chown(path, 0, 2)
        assert _hint(str(path), denied) == 'only root and the group "bin" may connect'
    for_members = "only root and the group of `ocid --group` may connect"
    assert _hint(str(tmp_path / "x"), denied) == for_members


def test_a_directory_that_others_can_write_to(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(HostError) as caught:
        make_directory(f"{tmp_path}/a/b", 0o700, "store")
    assert str(caught.value) == (
        f'use the store "{tmp_path}/a/b": "{tmp_path}" is world-writable without the'
        " sticky bit (mode 0777) (it must belong to root or to the calling user, and no one else"
        " may have write access)"
    )
