"""The host accepts an executor's messages only once, and in the order of its plan."""

from __future__ import annotations

import array
import os
import socket

import pytest

from ociruntime.base.errors import StepError
from ociruntime.runtime.executor.protocol import (
    SHORT,
    SO_PASSCRED,
    SOL_SOCKET,
    Expected,
    Message,
    check_listener,
    receive,
)
from ociruntime.runtime.plan import operation_constructors as o
from ociruntime.runtime.plan import operation_table as ops

CREATION = [
    o.sync(stage=ops.STAGE_MAPS),
    o.sync(stage=ops.STAGE_CGROUP),
    o.console(rows=1, columns=1, uid=0, flags=0),
    o.sync(stage=ops.STAGE_HOOKS),
    o.clone_process(terminal=0),
    o.sync(stage=ops.STAGE_READY),
    o.wait_start(),
    o.seccomp(flags=0, last=1, filter=b""),
    o.exec(args=["true"], env=[]),
]


def message(kind: int, value: int = 0, fd: int = -1) -> Message:
    return Message(SHORT.pack(kind, value, 0, 0), fd)


def stage(number: int) -> Message:
    return message(ops.MESSAGE_STAGE, number)


def test_a_whole_conversation() -> None:
    expected = Expected(CREATION)
    for each in (
        stage(ops.STAGE_MAPS),
        stage(ops.STAGE_CGROUP),
        message(ops.MESSAGE_CONSOLE, fd=0),
        stage(ops.STAGE_HOOKS),
        stage(ops.STAGE_READY),  # the word of the parent may come after its child's
        message(ops.MESSAGE_INIT_PID),
        message(ops.MESSAGE_FAILURE),
    ):
        expected.take(each)


@pytest.mark.parametrize(
    "forged",
    [
        stage(ops.STAGE_CGROUP),
        stage(ops.STAGE_HOOKS),
        stage(ops.STAGE_MAPS),
        stage(ops.STAGE_NETWORK),
        stage(77),
        message(ops.MESSAGE_CONSOLE),
        message(ops.MESSAGE_LISTENER),
        message(ops.MESSAGE_MOUNT),
        message(ops.MESSAGE_EXEC),
        message(99),
    ],
)
def test_a_neighbour_s_message_moves_nothing(forged: Message) -> None:
    """It has taken the channel from the process that was forked into its pid namespace."""
    expected = Expected(CREATION)
    for each in (ops.STAGE_MAPS, ops.STAGE_CGROUP, ops.STAGE_HOOKS):
        expected.take(stage(each))
    expected.take(message(ops.MESSAGE_CONSOLE, fd=0))
    expected.take(message(ops.MESSAGE_INIT_PID))
    with pytest.raises(StepError, match="unexpected message: "):
        expected.take(forged)


def test_descriptor_of_a_refused_message() -> None:
    """It is closed: a caller of the library would keep one for each forged message."""
    fd = os.open("/dev/null", os.O_RDONLY)
    forged = Message(SHORT.pack(ops.MESSAGE_CONSOLE, 0, 0, 0), fd)
    with pytest.raises(StepError, match="unexpected message: console"):
        Expected([]).take(forged)
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(fd)


def test_message_without_its_descriptor() -> None:
    """It is forged, or no descriptor was left to receive one."""
    with pytest.raises(StepError, match="unexpected message: console"):
        Expected(CREATION).take(message(ops.MESSAGE_CONSOLE))


def test_a_second_pid() -> None:
    expected = Expected([o.clone_process(terminal=0)])
    expected.take(message(ops.MESSAGE_INIT_PID))
    with pytest.raises(StepError, match="unexpected message: pid"):
        expected.take(message(ops.MESSAGE_INIT_PID))


@pytest.mark.parametrize(("kind", "kept"), [(ops.MESSAGE_STAGE, 0), (ops.MESSAGE_CONSOLE, 1)])
def test_descriptors_that_nobody_asked_for(kind: int, kept: int) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        before = len(os.listdir("/proc/self/fd"))
        rights = array.array("i", [ours.fileno(), ours.fileno()])
        theirs.sendmsg(
            [SHORT.pack(kind, 1, 0, 0)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
        )
        received = receive(ours)
        assert received is not None
        assert len(os.listdir("/proc/self/fd")) == before + kept
        assert (received.fd >= 0) == bool(kept)
        if kept:
            os.close(received.fd)


def test_the_kernel_names_the_sender() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        ours.setsockopt(SOL_SOCKET, SO_PASSCRED, 1)
        rights = array.array("i", [ours.fileno()])
        theirs.sendmsg(
            [SHORT.pack(ops.MESSAGE_CONSOLE, 1, 0, 0)],
            [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)],
        )
        received = receive(ours)
        assert received is not None
        assert received.sender == os.getpid()
        assert received.fd >= 0
        os.close(received.fd)


def test_a_program_is_announced_once() -> None:
    expected = Expected([o.exec(args=["true"], env=[])])
    expected.take(message(ops.MESSAGE_EXEC))
    with pytest.raises(StepError, match="unexpected message: exec"):
        expected.take(message(ops.MESSAGE_EXEC))


@pytest.mark.parametrize("fd", [-1, 0])
def test_a_listener_is_one_of_seccomp(fd: int) -> None:
    with pytest.raises(StepError, match="unexpected message: listener"):
        check_listener(Message(SHORT.pack(ops.MESSAGE_LISTENER, 0, 0, 0), fd))


def test_a_message_that_is_too_short_is_no_end_of_file() -> None:
    """Another process sends it, so that the messages behind it are not read."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        ours.setsockopt(SOL_SOCKET, SO_PASSCRED, 1)
        theirs.send(bytes([ops.MESSAGE_EXEC]))
        theirs.send(SHORT.pack(ops.MESSAGE_EXEC, 0, 0, 0))
        short = receive(ours)
        assert short is not None
        assert short.kind == 0
        with pytest.raises(StepError):
            Expected(CREATION).take(short)
        behind = receive(ours)
        assert behind is not None
        assert behind.kind == ops.MESSAGE_EXEC
        theirs.close()
        assert receive(ours) is None
