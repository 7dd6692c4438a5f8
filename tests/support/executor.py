"""Drive the executor with hand-written plans, as the runtime does.

The program is started directly, without new namespaces: a plan that needs them begins with
``unshare``.  Its messages are collected, every stage is answered, its output is returned.
"""

from __future__ import annotations

import errno
import os
import socket
import subprocess
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from ociruntime.base.linux import CLONE_NEWIPC, CLONE_NEWNS, CLONE_NEWUTS, MS_REC, MS_SLAVE
from ociruntime.runtime.executor.protocol import Message, go, receive
from ociruntime.runtime.executor.spawn import PROGRAM
from ociruntime.runtime.plan import operation_constructors as operations
from ociruntime.runtime.plan import operation_table as ops
from ociruntime.runtime.plan.plan import Operation, Plan, encode
from tests.support import processes
from tests.support.refusal import is_refused, refuse

SECONDS = 30
program = PROGRAM  # which build is to be driven
refused: tuple[str, ...] = ()  # system calls that the kernel is not to have
READY = operations.sync(stage=ops.STAGE_READY)

NO_STEP = 2**32 - 1  # of a failure before the first operation


def lacks(call: str) -> bool:
    """Return whether this system call fails for the executor."""
    return call in refused or is_refused(call)


class Outcome:
    """The outcome of a plan.

    It has the ``messages`` in order, the ``status`` like subprocess, and the ``output`` of the
    program.
    """

    def __init__(self, messages: list[Message], status: int, output: str) -> None:
        self.messages = messages
        self.status = status
        self.output = output

    @property
    def failure(self) -> Message | None:
        """Return the failure, if any.

        The parent of a forked process may send more messages after it.
        """
        failures = [one for one in self.messages if one.kind == ops.MESSAGE_FAILURE]
        return failures[-1] if failures else None

    @property
    def fact(self) -> tuple[int, str, int, str] | None:
        """Return the failure as (index of the operation, call, errno, argument)."""
        said = self.failure
        return (said.value, said.call, said.error, said.argument) if said else None

    def ok(self) -> Outcome:
        """Assert that the program was executed and succeeded."""
        assert self.fact is None, f"{self.fact} {self.failure and self.failure.detail}"
        assert self.status == 0, self.output
        return self


def plan_of(*steps: Operation, preserve_fds: int = 0) -> Plan:
    """Return a plan of these operations."""
    plan = Plan(preserve_fds=preserve_fds)
    for step in steps:
        plan.add(step)
    return plan


def entered(root: Path, *steps: Operation, flags: int = 0) -> list[Operation]:
    """Return ``steps`` between the usual first operations and the entry into the root."""
    return [*before(root, flags), *steps, operations.pivot_root()]


def before(root: Path, flags: int = 0) -> list[Operation]:
    """Return the first operations: new namespaces, no propagation to the host, the root."""
    return [
        operations.unshare(flags=CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | flags),
        operations.propagation(flags=MS_SLAVE | MS_REC),
        operations.root(source=str(root)),
    ]


def shell(script: str) -> Operation:
    """Return the operation that executes a shell script, which ends a plan."""
    return operations.exec(args=["/bin/busybox", "sh", "-c", script], env=["PATH=/bin"])


def _begin(prepare: Callable[[], None] | None) -> Callable[[], None] | None:
    """Set up the child process before the executor."""
    if not refused:
        return prepare

    def begin() -> None:
        refuse(errno.ENOSYS, *refused)
        if prepare:
            prepare()

    return begin


def run(
    plan: Plan | bytes,
    *,
    answer: Callable[[Message, socket.socket], None] | None = None,
    prepare: Callable[[], None] | None = None,
    pass_fds: Iterable[int] = (),
    stdin: int = subprocess.DEVNULL,
    wrapper: Sequence[str] = (),
) -> Outcome:
    """Carry out a plan with ``program``, from its start to the exit of its program.

    ``answer`` is called with each message except the failure, and sends GO itself; ``prepare`` runs
    in the child before the executor.  ``wrapper`` is a command that runs the executor: the outcome
    has the status of that command.
    """
    data = plan if isinstance(plan, bytes) else encode(plan)
    with ExitStack() as held:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        gate = held.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        gate.bind("")  # an abstract name of the kernel's choice
        gate.listen(8)
        channel = held.enter_context(ours)
        channel.settimeout(SECONDS)
        output = held.enter_context(os.fdopen(os.memfd_create("output"), "rb"))
        with theirs, os.fdopen(os.memfd_create("plan"), "wb", buffering=0) as file:
            file.write(data)
            fds = [file.fileno(), theirs.fileno(), gate.fileno()]
            process = subprocess.Popen(
                [*wrapper, program, *map(str, fds)],
                pass_fds=[*fds, *pass_fds],
                stdin=stdin,
                stdout=output.fileno(),
                stderr=subprocess.STDOUT,
                preexec_fn=_begin(prepare),  # noqa: PLW1509  # no threads here
            )
        try:
            messages = converse(channel, gate, answer or _go)
            status = process.wait(SECONDS)
            for born in (one.pid for one in messages if one.kind == ops.MESSAGE_INIT_PID):
                if wrapper:
                    processes.until(partial(_is_over, born))
                else:
                    status = os.waitstatus_to_exitcode(os.waitpid(born, 0)[1])
        finally:
            process.kill()
            process.wait()
        output.seek(0)
        return Outcome(messages, status, output.read().decode(errors="replace"))


def converse(
    channel: socket.socket,
    gate: socket.socket,
    answer: Callable[[Message, socket.socket], None],
) -> list[Message]:
    """Receive messages until the end; after the stage "ready", at the start gate."""
    messages: list[Message] = []
    ready = False
    while (message := receive(channel)) is not None:
        messages.append(message)
        if message.kind != ops.MESSAGE_FAILURE:
            answer(message, channel)
        ready = ready or (message.kind, message.value) == (ops.MESSAGE_STAGE, ops.STAGE_READY)
    if ready:
        messages += begin(gate)
    return messages


def begin(gate: socket.socket) -> list[Message]:
    """Do what ``start`` does: connect to the gate, and read the messages."""
    messages = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as starter:
        starter.settimeout(SECONDS)
        starter.connect(gate.getsockname())
        gate.close()
        go(starter)
        while (message := receive(starter)) is not None:
            messages.append(message)
            _go(message, starter)
    return messages


def _is_over(pid: int) -> bool:
    return not processes.alive(pid)


def _go(message: Message, channel: socket.socket) -> None:
    if message.kind in {ops.MESSAGE_STAGE, ops.MESSAGE_LISTENER, ops.MESSAGE_MOUNT}:
        go(channel)
    if message.fd >= 0:
        os.close(message.fd)
