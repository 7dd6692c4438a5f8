"""A-101: which standard streams the container's user becomes the owner of, and which not."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.plugin import MakeBundle, MakeContainer
from tests.support.runtime import Runtime

# runc gives every device but /dev/null away and files that are read alone, crun /dev/null too.
pytestmark = pytest.mark.judge_by("ociruntime")

FIRST = 100000  # of the ids of the user namespace
Open = Callable[[Path, ExitStack], int]


def device(major: int, minor: int) -> Open:
    """A separate node, so that a change does not affect the host's."""

    def opened(work: Path, _: ExitStack) -> int:
        node = work / "node"
        os.mknod(node, stat.S_IFCHR | 0o666, os.makedev(major, minor))
        return os.open(node, os.O_RDWR | os.O_NOCTTY)

    return opened


def file(flags: int) -> Open:
    def opened(work: Path, _: ExitStack) -> int:
        (work / "file").write_text("text\n")
        return os.open(work / "file", flags)

    return opened


def pipe(end: int) -> Open:
    def opened(_: Path, others: ExitStack) -> int:
        ends = os.pipe()
        others.callback(os.close, ends[1 - end])
        return ends[end]

    return opened


def fifo(work: Path, _: ExitStack) -> int:
    os.mkfifo(work / "fifo")
    return os.open(work / "fifo", os.O_RDWR)


def connection(_: Path, others: ExitStack) -> int:
    one, other = socket.socketpair()
    others.enter_context(other)
    return one.detach()


def terminal(_: Path, others: ExitStack) -> int:
    master, slave = os.openpty()
    others.callback(os.close, master)
    return slave


# Makes standard input its terminal, and gives on what the path leads to.
THROUGH = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
fd = os.open(sys.argv[1], os.O_RDWR)
for one in range(3):
    os.dup2(fd, one)
os.execv(sys.argv[2], sys.argv[2:])
"""

GIVEN: dict[str, Open] = {
    "pipe-read": pipe(0),
    "pipe-write": pipe(1),
    "fifo": fifo,
    "socket": connection,
    "terminal": terminal,
    "file-write": file(os.O_WRONLY),
    "file-append": file(os.O_WRONLY | os.O_APPEND),
    "file-both": file(os.O_RDWR),
}
KEPT: dict[str, Open] = {
    "null": device(1, 3),
    "zero": device(1, 5),
    "full": device(1, 7),
    "urandom": device(1, 9),
    "file-read": file(os.O_RDONLY),
}
KINDS = {**GIVEN, **KEPT}


@pytest.fixture
def stream(work: Path, request: pytest.FixtureRequest) -> Iterator[int]:
    with ExitStack() as others:
        fd = KINDS[request.param](work, others)
        others.callback(os.close, fd)
        yield fd


@pytest.mark.parametrize("who", ["root", "user", "namespace", "namespace-of-the-stream"])
@pytest.mark.parametrize("stream", KINDS, indirect=True)
def test_owner(
    container: MakeContainer,
    bundle: MakeBundle,
    runtime: Runtime,
    stream: int,
    who: str,
    request: pytest.FixtureRequest,
) -> None:
    """The group never changes: no other user may get access to the caller's streams."""
    one = bundle("true")
    if who != "root":
        one.process["user"] = {"uid": 1000, "gid": 1000}
    if who.startswith("namespace"):
        one.user_namespace(FIRST)
    before, group = (FIRST, FIRST + 5) if who == "namespace-of-the-stream" else (0, 5)
    os.fchown(stream, before, group)
    made = container(one)
    one.save()
    words = ("run", "--bundle", str(one.path), made.id)
    with os.fdopen(os.dup(stream), "rb", buffering=0, closefd=True) as same:
        process = runtime.popen(*words, stdin=same, stdout=same, stderr=same)
    assert process.wait(20) == 0
    after = {"user": 1000, "namespace-of-the-stream": FIRST + 1000}.get(who, 0)
    given = request.node.callspec.params["stream"] in GIVEN
    now = os.fstat(stream)
    assert (now.st_uid, now.st_gid) == (after if given else before, group)


def test_terminal_of_the_caller_by_its_other_name(
    container: MakeContainer, bundle: MakeBundle, runtime: Runtime, work: Path
) -> None:
    """/dev/tty is one node for all terminals of the host."""
    one = bundle("true")
    one.process["user"] = {"uid": 1000, "gid": 1000}
    made = container(one)
    one.save()
    node = work / "tty"
    os.mknod(node, stat.S_IFCHR | 0o666, os.makedev(5, 0))
    with ExitStack() as others:
        slave = terminal(work, others)
        others.callback(os.close, slave)
        words = runtime.command("run", "--bundle", str(one.path), made.id)
        process = subprocess.Popen(
            [sys.executable, "-c", THROUGH, str(node), *words],
            stdin=slave,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert process.wait(20) == 0
    assert node.stat().st_uid == 0
