"""Finding criu, its log in a few words, and a conversation with a program that plays it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ociruntime.base.errors import ContainerError, CriuError
from ociruntime.runtime.host.criu import Session, find_criu, obstacle, summary
from ociruntime.runtime.host.criu_messages import DUMP, NOTIFY

# Answers each request with two stages and then with success if both were.
PLAYER = """\
import socket, sys
sys.path.insert(0, {path!r})
from ociruntime.runtime.host.criu_messages import *
from ociruntime.runtime.host import criu_messages as m
assert sys.argv[1] == "swrk"
m.SHAPES["criu_req"]["opts"] = (2, "criu_opts")
connection = socket.socket(fileno=int(sys.argv[2]))
request = decode("criu_req", connection.recv(1 << 16))
done = True
for stage in ("setup-namespaces", "orphan-pts-master"):
    notify = {{"type": NOTIFY, "success": 1, "notify": {{"script": stage, "pid": 77}}}}
    data = encode("criu_resp", notify)
    if stage == "orphan-pts-master":
        socket.send_fds(connection, [data], [1])
    else:
        connection.send(data)
    done = done and decode("criu_req", connection.recv(1 << 16))["notify_success"]
connection.send(encode("criu_resp", {{"type": request["type"], "success": done}}))
"""


@pytest.fixture
def player(tmp_path: Path) -> str:
    program = tmp_path / "criu"
    root = str(Path(__file__).resolve().parents[4])
    program.write_text(f"#!{sys.executable}\n" + PLAYER.format(path=root))
    program.chmod(0o755)
    return str(program)


def test_stages_and_the_answer(player: str) -> None:
    import os

    heard = []

    def stage(name: str, pid: int, fd: int) -> None:
        heard.append((name, pid, fd >= 0))
        if fd >= 0:
            assert not os.get_inheritable(fd)
            os.close(fd)

    session = Session(player)
    try:
        answer = session.request({"type": DUMP, "opts": {"images_dir_fd": 3}}, stage)
    finally:
        session.close()
    assert answer == {"type": DUMP, "success": 1}
    assert heard == [("setup-namespaces", 77, False), ("orphan-pts-master", 77, True)]
    assert NOTIFY == 6


def test_the_error_of_a_stage_is_the_error(player: str) -> None:
    def stage(name: str, pid: int, fd: int) -> None:
        raise ContainerError(f"not with {name}")

    session = Session(player)
    with pytest.raises(ContainerError, match="not with setup-namespaces"):
        session.request({"type": DUMP, "opts": {"images_dir_fd": 3}}, stage)
    session.close()


def test_a_program_that_says_something_and_ends(tmp_path: Path) -> None:
    program = tmp_path / "criu"
    program.write_text("#!/bin/sh\necho out of order >&2\nexit 1\n")
    program.chmod(0o755)
    session = Session(str(program))
    with pytest.raises(CriuError, match="criu"):
        session.request({"type": DUMP}, lambda *_: None)
    session.close()
    assert obstacle(str(program)).endswith("status 1")


def test_finding_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the caller's PATH first, unless others can change what is there."""
    monkeypatch.setattr("ociruntime.base.host_programs.DIRECTORIES", (str(tmp_path / "system"),))
    monkeypatch.setenv("PATH", f"relative:{tmp_path / 'open'}:{tmp_path}")
    monkeypatch.setattr("posix.environ", os.environb)
    program = tmp_path / "criu"
    program.write_text("")
    with pytest.raises(CriuError, match=r'not installed.*package "criu"'):
        find_criu("")
    for path in (tmp_path / "system/criu", tmp_path / "open/criu"):
        path.parent.mkdir()
        path.write_text("")
        path.chmod(0o755)
    (tmp_path / "open").chmod(0o777)
    assert find_criu("") == str(tmp_path / "system/criu")
    program.chmod(0o755)
    assert find_criu("") == str(program)
    assert find_criu("criu") == str(program)
    assert find_criu(str(program)) == str(program)
    with pytest.raises(CriuError, match='--criu "/no/such": no such program'):
        find_criu("/no/such")


LOG = """\
(00.038255) Error (criu/util.c:1534): rlimit: Cannot set RLIMIT_NOFILE for self
(00.055226) Error (criu/files-reg.c:1790): Can't lookup mount=27 for fd=1 path=/x
(00.055226)     12: Error (criu/files-reg.c:1790): Can't lookup mount=27 for fd=1 path=/x
(00.055241) Error (criu/cr-dump.c:1545): Dump files (pid: 26994) failed with -1
(00.125542) Error (criu/cr-dump.c:1975): Dumping FAILED.
"""


def test_a_log_in_a_few_words() -> None:
    words = "Can't lookup mount=27 for fd=1 path=/x; Dump files (pid: 26994) failed with -1"
    assert summary(LOG) == words
    assert summary("(00.1) Dumping finished successfully\n") == ""


def test_program_that_cannot_be_started(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")
    assert obstacle(f"{tmp_path}/criu") == f"{tmp_path}/criu: no such file or directory"
    with pytest.raises(CriuError, match=f'start "{tmp_path}/criu": no such file'):
        Session(f"{tmp_path}/criu")
    assert os.listdir("/proc/self/fd") == before


def test_exit_without_a_response(tmp_path: Path) -> None:
    """The hint is what criu has printed."""
    program = tmp_path / "criu"
    reads = "import os, sys; os.read(int(sys.argv[2]), 9999); print('no such option')"
    program.write_text(f"#!{sys.executable}\n{reads}\n")
    program.chmod(0o755)
    session = Session(str(program))
    try:
        with pytest.raises(CriuError, match="criu") as caught:
            session.request({"type": DUMP}, lambda *_: None)
    finally:
        session.close()
    assert "no such option" in caught.value.hint
