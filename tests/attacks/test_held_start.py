"""An init that does not answer at its start gate, and a connection that never ends.

A process with CAP_SYS_PTRACE in a joined pid namespace can stop the init, and keep duplicates of
its sockets.  `start` may then wait, as it does for a hook, but `delete` must not.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import signal
import socket
import stat
import subprocess
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from ociruntime.runtime.executor.protocol import SHORT
from ociruntime.runtime.plan.operation_table import MESSAGE_EXEC, MESSAGE_LISTENER
from tests.support import processes
from tests.support.container import Container
from tests.support.peers import judge_by
from tests.support.plugin import MakeBundle, MakeContainer

pytestmark = judge_by("ociruntime")

PIDFD_GETFD = 438
both = pytest.mark.parametrize("flags", [[], ["--debug"]], ids=["fast path", "interpreter"])


def sockets_of(pid: int, held: ExitStack) -> list[int]:
    """Duplicate the process's sockets, as its tracer can."""
    libc = ctypes.CDLL(None, use_errno=True)
    pidfd = os.pidfd_open(pid)
    held.callback(os.close, pidfd)
    found = []
    for number in map(int, os.listdir(f"/proc/{pid}/fd")):
        fd = libc.syscall(PIDFD_GETFD, pidfd, number, 0)
        if fd < 0:
            continue
        if stat.S_ISSOCK(os.fstat(fd).st_mode):
            held.callback(os.close, fd)
            found.append(fd)
        else:
            os.close(fd)
    return found


def is_connection(fd: int) -> bool:
    with socket.socket(fileno=os.dup(fd)) as one:
        return not one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)


def names_of_children(pid: int) -> list[str]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [Path(f"/proc/{child}/comm").read_text().strip() for child in children]


def is_locked(one: Container) -> bool:
    fd = os.open(one.runtime.root / one.id, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def starting(one: Container, flags: list[str]) -> subprocess.Popen[bytes]:
    return one.runtime.popen(*flags, "start", one.id)


@both
def test_delete_while_the_first_process_is_stopped(
    container: MakeContainer, bundle: MakeBundle, flags: list[str]
) -> None:
    one = container(bundle()).created()
    os.kill(one.pid, signal.SIGSTOP)
    start = starting(one, flags)
    assert processes.until(lambda: is_locked(one))
    one.delete("--force").silent()
    assert start.wait(20) == 1


@both
def test_delete_while_a_neighbour_has_the_connection(
    container: MakeContainer, bundle: MakeBundle, flags: list[str]
) -> None:
    """The init has exited, but its end of the connection stays open."""
    made = bundle()
    made.hooks["startContainer"] = [{"path": "/bin/sleep", "args": ["sleep", "1000"]}]
    one = container(made).created()
    with ExitStack() as held:
        start = starting(one, flags)
        assert processes.until(lambda: "sleep" in names_of_children(one.pid))
        assert any(map(is_connection, sockets_of(one.pid, held)))
        one.delete("--force").silent()
        assert start.wait(20) == 1


@both
def test_delete_while_a_neighbour_floods_the_connection(
    container: MakeContainer, bundle: MakeBundle, flags: list[str]
) -> None:
    """The tracer sends EXEC messages without end."""
    made = bundle()
    made.hooks["startContainer"] = [{"path": "/bin/sleep", "args": ["sleep", "1000"]}]
    one = container(made).created()
    with ExitStack() as held:
        start = starting(one, flags)
        assert processes.until(lambda: "sleep" in names_of_children(one.pid))
        connections = list(filter(is_connection, sockets_of(one.pid, held)))
        over = threading.Event()
        threads = [threading.Thread(target=flood, args=(connections, over)) for _ in range(6)]
        for thread in threads:
            thread.start()
        try:
            one.delete("--force").silent()
            start.wait(20)
        finally:
            over.set()
            for thread in threads:
                thread.join()


def flood(connections: list[int], over: threading.Event) -> None:
    message = SHORT.pack(MESSAGE_EXEC, 0, 0, 0)
    while not over.is_set():
        for fd in connections:
            with socket.socket(fileno=os.dup(fd)) as one:
                try:
                    one.send(message, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
                except OSError:
                    pass


@both
def test_a_forged_listener(
    container: MakeContainer, bundle: MakeBundle, flags: list[str], work: Path
) -> None:
    """The host's agent gets no descriptor that the tracer has chosen."""
    made = bundle()
    made.hooks["startContainer"] = [{"path": "/bin/sleep", "args": ["sleep", "1000"]}]
    with ExitStack() as held:
        agent = held.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        agent.bind(str(work / "agent"))
        agent.listen()
        made.linux["seccomp"] = {
            "defaultAction": "SCMP_ACT_ALLOW",
            "listenerPath": str(work / "agent"),
            "syscalls": [{"names": ["mkdir"], "action": "SCMP_ACT_NOTIFY"}],
        }
        one = container(made).created()
        errors = held.enter_context((work / "errors").open("w+b"))
        start = one.runtime.popen(*flags, "start", one.id, stderr=errors)
        assert processes.until(lambda: "sleep" in names_of_children(one.pid))
        (connection,) = filter(is_connection, sockets_of(one.pid, held))
        with socket.socket(fileno=os.dup(connection)) as forged:
            socket.send_fds(forged, [SHORT.pack(MESSAGE_LISTENER, 0, 0, 0)], [0])
        assert start.wait(20) == 1
        errors.seek(0)
        assert b"unexpected message: listener" in errors.read()
        while select.select([agent], [], [], 0)[0]:
            with agent.accept()[0] as connected:
                assert connected.recv(4096) == b""


def test_start_while_a_neighbour_has_the_connection(
    container: MakeContainer, bundle: MakeBundle
) -> None:
    """The end of file that signals the exec does not arrive; both kinds of `start` continue."""
    made = bundle()
    script = "until test -e /go; do sleep 0.05; done"
    made.hooks["startContainer"] = [{"path": "/bin/sh", "args": ["sh", "-c", script]}]
    ones = [container(made).created() for _ in range(2)]
    with ExitStack() as held:
        starts = [starting(one, flags) for one, flags in zip(ones, ([], ["--debug"]), strict=True)]
        for one in ones:
            assert processes.until(lambda: "sh" in names_of_children(one.pid))  # noqa: B023
            assert any(map(is_connection, sockets_of(one.pid, held)))
        (made.rootfs / "go").touch()
        assert [start.wait(30) for start in starts] == [0, 0]
        assert [one.status for one in ones] == ["running", "running"]
