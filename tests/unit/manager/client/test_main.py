"""``ocictl``: from argv to an exit status and one line of error."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from ociruntime.base.errors import RuntimeFailure
from ociruntime.manager.client.command_table import PROGRAM
from ociruntime.manager.client.connection import (
    Connection,
    DaemonError,
    _hint,
    container,
    resource,
    with_ocictl_options,
)
from ociruntime.manager.client.containers import exit_status
from ociruntime.manager.client.main import failure_status, main
from ociruntime.manager.client.websocket import open_websocket

Capture = pytest.CaptureFixture[str]


def failing(argv: list[str], capfd: Capture, status: int = 1) -> str:
    """Return the error line of a failing command."""
    assert main(argv) == status
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("ocictl: ")
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize(
    "argv",
    [["--help"], ["-h"], ["help"], ["ps", "--help"], ["help", "pod", "ls"], ["ps", "-h"]],
)
def test_help_goes_to_standard_output(argv: list[str], capfd: Capture) -> None:
    assert main(argv) == 0
    out, err = capfd.readouterr()
    assert out.startswith("usage: ocictl")
    assert err == ""


def test_no_command(capfd: Capture) -> None:
    assert main([]) == 2
    assert capfd.readouterr().out.startswith("usage: ocictl")


def test_help_of_a_group_names_its_commands(capfd: Capture) -> None:
    for argv in (["container", "--help"], ["container", "-h"], ["help", "container"]):
        assert main(argv) == 0
        assert "container delete" in capfd.readouterr().out


def test_unknown_words(capfd: Capture) -> None:
    assert '"sotp" (did you mean stop?)' in failing(["sotp"], capfd)
    assert '"pod" needs a command (' in failing(["pod"], capfd)
    line = failing(["run", "--nmae=x", "y"], capfd, 125)
    assert "unknown option --nmae (did you mean --name?)" in line
    assert "unknown option -Q" in failing(["ps", "-Q"], capfd)
    assert "unknown option -e" in failing(["ps", "-ae"], capfd)


def test_options_of_docker_are_never_abbreviations_of_others(capfd: Capture) -> None:
    assert "--link is not supported" in failing(["run", "--link=db", "y"], capfd, 125)
    assert "--link is not supported" in failing(["run", "--link", "db", "y"], capfd, 125)
    assert "unknown option --mem" in failing(["run", "--mem=1G", "y"], capfd, 125)
    assert "unknown option --e" in failing(["run", "--e", "A=1", "y"], capfd, 125)
    assert "-h (--hostname) requires a value" in failing(["run", "-h"], capfd, 125)
    assert 'unknown command "image lsit"' in failing(["image", "lsit"], capfd)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["stop"], '"stop": '),
        (
            ["rename", "a"],
            '"rename": ',
        ),
        (["stop", "-t", "-1", "web"], "--time: "),
        (["kill", "-s", "0", "web"], '--signal: "0"'),
        (["kill", "-s", "TREM", "web"], 'unknown signal "TREM" (did you mean SIGTERM?)'),
        (["start", "-a", "web", "db"], "only one container"),
        (["ps", "-n", "0"], "--last: must be 1 or more"),
        (["ps", "-f", "name"], '--filter: the filter "name" has no value'),
        (["ps", "-f", "nmae=x"], '--filter: unknown filter "nmae" (supported: id, name,'),
        (["events", "-f", "name"], '--filter: invalid filter "name"'),
        (
            ["events", "--format", "table Kind"],
            "--format: ",
        ),
        (
            ["container", "create", "web", "/bin/sh"],
            "container create: ",
        ),
        (
            ["container", "create", "web", "--image=x", "--rootfs=/", "/bin/sh"],
            "container create: ",
        ),
    ],
)
def test_wrong_command_lines(argv: list[str], words: str, capfd: Capture) -> None:
    assert words in failing(argv, capfd)


def test_no_daemon(tmp_path: Path, capfd: Capture) -> None:
    path = tmp_path / "sock"
    line = failing([f"--socket={path}", "ps"], capfd)
    assert f' "{path}": no such file or directory (' in line
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    line = failing([f"--socket={path}", "run", "-d", "x"], capfd, 125)
    assert f' "{path}": connection refused (' in line


def test_who_may_use_the_socket(tmp_path: Path) -> None:
    path = tmp_path / "sock"
    path.touch()
    denied = PermissionError(13, "Permission denied")
    if os.getuid() == 0:
        assert "--group=" in _hint(str(path), denied)
        os.chown(path, 0, 2)
        assert '"bin"' in _hint(str(path), denied)
    assert "group of" in _hint(str(tmp_path / "x"), denied)


def test_what_answers_is_no_daemon(tmp_path: Path) -> None:
    path = str(tmp_path / ("d" * 90) / "sock")
    os.mkdir(os.path.dirname(path))
    here = os.getcwd()
    with socket.socket(socket.AF_UNIX) as listener:
        os.chdir(os.path.dirname(path))
        listener.bind("sock")  # an address cannot be as long as the path
        os.chdir(here)
        listener.listen(3)
        for said, told in (
            (
                b"SSH-2.0-x\r\n\r\n",
                "'SSH-2.0-x'",
            ),
            (b"", "connection was closed"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", "before the end"),
            (b"HTTP/1.1 200 OK\r\n\r\n{", "GET /v1/ping"),
            (b"HTTP/1.1 500 Oh\r\n\r\nno!", "status 500: no!"),
        ):
            assert told in _told_by(listener, path, said)


def _told_by(
    listener: socket.socket, path: str, said: bytes, ask: Callable[[], object] | None = None
) -> str:
    import threading

    def answer() -> None:
        sock, _ = listener.accept()
        with sock:
            sock.recv(65536)
            sock.sendall(said)

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        with pytest.raises(RuntimeFailure) as caught:
            ask() if ask else Connection(path).get("/v1/ping")
    finally:
        thread.join()
    return str(caught.value)


def test_no_websocket(tmp_path: Path) -> None:
    path = str(tmp_path / "sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(1)
        said = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        assert 'WebSocket at "/v1/x"' in _told_by(
            listener, path, said, lambda: open_websocket(Connection(path), "/v1/x")
        )


def test_answers_in_chunks(tmp_path: Path) -> None:
    import threading

    path = str(tmp_path / "sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(1)

        def answer() -> None:
            sock, _ = listener.accept()
            with sock:
                sock.recv(65536)
                head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                for piece in (
                    head + b'3\r\n{"a',
                    b'\r\n6;x=1\r\n":1}\n{\r\n1\r\n}\r\n0\r',
                    b"\n\r\n",
                ):
                    sock.sendall(piece)

        thread = threading.Thread(target=answer)
        thread.start()
        assert list(Connection(path).lines("GET", "/x")) == [{"a": 1}, {}]
        thread.join()


def test_paths_of_resources() -> None:
    assert container("a b/c", "stop", strict=True) == "/v1/containers/a%20b%2Fc/stop?strict=1"
    assert resource("images", "x:1@é", force=False, n=None) == "/v1/images/x%3A1%40%C3%A9"


def test_exit_status() -> None:
    assert failure_status(RuntimeFailure("x"), "run") == 125
    assert failure_status(RuntimeFailure("x"), "stop") == 1
    assert failure_status(RuntimeFailure("x"), "") == 1
    assert failure_status(DaemonError("x", "start_failed", 400, 127), "start") == 127
    assert exit_status("web", {"exit_code": 0}) == 0
    with pytest.raises(RuntimeFailure, match=r'container "web": .*killed'):
        exit_status("web", {"exit_code": None, "error": "killed"})


def test_a_bug_is_one_line(capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def bug(*_: object) -> int:
        raise ValueError("a\nb")

    monkeypatch.setattr(PROGRAM.command("version"), "run", bug)
    assert "internal error: ValueError: a b (use --debug for" in failing(["version"], capfd)
    assert main(["--debug", "version"]) == 1
    assert "Traceback" in capfd.readouterr().err


def test_interrupted(capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(PROGRAM.command("version"), "run", interrupted)
    assert "interrupted" in failing(["version"], capfd, 130)


def test_an_image_is_removed_by_its_path_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(Connection, "delete", lambda _, path: asked.append(path))
    monkeypatch.chdir(tmp_path)
    assert main(["rmi", "busybox", "./x.tar"]) == 0
    assert asked == [resource("images", "busybox"), resource("images", f"{tmp_path}/./x.tar")]
    assert capfd.readouterr().out == "busybox\n./x.tar\n"


def test_hints_name_our_options() -> None:
    """The daemon passes on the messages of ocipod."""
    for said, shown in (
        (
            "pull: refused (--insecure-options=http allows it)",
            "pull: refused (--insecure=http allows it)",
        ),
        (
            'app "app": no command (choose --exec)',
            'app "app": no command (choose --entrypoint)',
        ),
        ('file "--exec (": not found', 'file "--exec (": not found'),
        ("--exec: nothing", "--exec: nothing"),
    ):
        assert with_ocictl_options(said) == shown
    known = {option.name for command in PROGRAM.commands for option in command.options}
    assert {"insecure", "entrypoint", "workdir"} <= known
