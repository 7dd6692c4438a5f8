"""Messages of the executor, as a process in a shared pid namespace may send them.

An input is a series of messages, each after its length in two bytes; the bit 0x8000 attaches a
descriptor.
"""

from __future__ import annotations

import os
import random
import socket
from array import array
from collections.abc import Iterator

from ociruntime.runtime.executor.failure_messages import failure
from ociruntime.runtime.executor.protocol import LONG, SHORT, Expected, check_listener, receive
from ociruntime.runtime.plan.operation_table import MESSAGE_CONSOLE, MESSAGE_FAILURE, MESSAGE_STAGE
from tests.fuzz.target import Target, refusals
from tests.support import golden

_CASES = {case.name: case for case in golden.CASES}
_OPERATIONS = golden.plan_of(_CASES["default"]).operations
WITH_DESCRIPTOR = 0x8000


def _messages(data: bytes) -> Iterator[tuple[bytes, bool]]:
    while len(data) > 2:
        head = int.from_bytes(data[:2])
        size = head & ~WITH_DESCRIPTOR
        yield data[2 : 2 + size], bool(head & WITH_DESCRIPTOR)
        data = data[2 + size :]


def run(data: bytes) -> None:
    before = len(os.listdir("/proc/self/fd"))
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    expected = Expected(_OPERATIONS)
    accepted: list[tuple[int, int]] = []
    with ours, theirs, open(os.devnull, "rb") as null:
        for content, attached in _messages(data):
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [null.fileno()] * 2))]
            if not content:
                continue
            theirs.sendmsg([content], rights if attached else [])
            message = receive(ours)
            assert message is not None
            try:
                with refusals():
                    expected.take(message)
                    accepted.append((message.kind, message.value))
                    check_listener(message)
                with refusals():
                    known = message.value < len(_OPERATIONS)
                    raise failure(_OPERATIONS[message.value] if known else None, message)
            finally:
                if message.fd >= 0:
                    os.close(message.fd)
    assert len(os.listdir("/proc/self/fd")) == before, "a descriptor is left open"
    stages = [value for kind, value in accepted if kind == MESSAGE_STAGE]
    assert len(stages) == len(set(stages)), "a stage is accepted twice"


def _framed(*messages: bytes, flag: int = 0) -> bytes:
    return b"".join((len(one) | flag).to_bytes(2) + one for one in messages)


def seeds() -> Iterator[bytes]:
    yield _framed(*(SHORT.pack(kind, value, 7, 0) for kind in range(1, 10) for value in range(3)))
    yield _framed(SHORT.pack(MESSAGE_CONSOLE, 1, 7, 0), flag=WITH_DESCRIPTOR)
    for step in range(len(_OPERATIONS)):
        for error in (1, 2, 22, 28):
            yield _framed(
                LONG.pack(
                    MESSAGE_FAILURE, step, 0, error, b"openat2", b"/a\n\xff", b"detail\n[ line"
                )
            )
    yield _framed(LONG.pack(MESSAGE_FAILURE, 2**32 - 1, 0, 74, b"read", b"plan", b""))
    yield _framed(b"", b"abc", bytes(16))


def mutate(data: bytes, rng: random.Random) -> bytes:
    parts = [(content, flag) for content, flag in _messages(data)] or [(bytes(16), False)]
    at = rng.randrange(len(parts))
    content, flag = parts[at]
    action = rng.randrange(5)
    if action == 0:
        del parts[at]
    elif action == 1:
        parts.insert(at, parts[rng.randrange(len(parts))])
    elif action == 2:
        parts[at] = content, not flag
    else:
        place = (
            4 * rng.randrange(max(len(content) // 4, 1))
            if action == 3
            else rng.randrange(len(content) + 1)
        )
        piece = rng.choice((0, 1, 2, 3, 5, 13, 2**31, 2**32 - 1)).to_bytes(4, "little")
        parts[at] = content[:place] + piece + content[place + 4 :], flag
    return b"".join(_framed(content, flag=WITH_DESCRIPTOR * flag) for content, flag in parts[:40])


TARGET = Target(
    run,
    ("runtime/executor/protocol.py", "runtime/executor/failure_messages.py"),
    seeds,
    mutate,
)
