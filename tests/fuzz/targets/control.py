"""The control socket of a pod's monitor: requests, and the frames of an attached client.

An input is a series of messages, each after its length in two bytes; the first byte of the input
describes the pod.
"""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from ociruntime.pods.loop.control_socket import Connection, answer_of
from ociruntime.pods.loop.event_loop import READABLE
from ociruntime.pods.monitor.control_requests import Requests
from tests.fuzz.mutation import json_mutator
from tests.fuzz.target import Target, refusals

_OPERATIONS = ("status", "add", "start", "stop", "rm", "halt", "endpoints", "attach")
_mutate_json = json_mutator(("op", "app", "seconds", "force", "streams", "wait", "size"))


class _Loop:
    """A loop that waits for nothing: the target itself reports when the socket is readable."""

    def watch(self, fd: int, events: int, handler: object) -> None:
        pass

    def forget(self, fd: int) -> None:
        pass


class _Streams:
    """An app's streams, which accept everything."""

    has_input = True

    def __init__(self) -> None:
        self.sinks: list[object] = []
        self.on_room: list[object] = []

    def has_output(self, name: str) -> bool:
        return name == "stdout"

    def put(self, data: bytes) -> bool:
        return len(data) % 2 == 0

    def end_input(self) -> None:
        pass

    def resize(self, rows: int, columns: int) -> None:
        assert 0 <= rows < 10000
        assert 0 <= columns < 10000


def _app(shape: int) -> SimpleNamespace:
    running = bool(shape & 1)
    return SimpleNamespace(
        name="web",
        record={"state": "running" if running else "prepared"},
        streams=_Streams() if running else None,
        terminal=bool(shape & 2),
        kinds={"stdin": "stream", "stdout": "log"},
        is_active=running,
        on_streams=[],
        watchers=[],
        context=SimpleNamespace(runtime=SimpleNamespace(uuid="u")),
        start=lambda done: done(None),
        stop=lambda why, seconds, done: done(),
        remove=lambda seconds, done: done(None),
    )


def _pod(shape: int) -> Any:  # noqa: ANN401 - a pod as far as requests see it
    return SimpleNamespace(
        uuid="u",
        apps={"web": _app(shape)},
        ready=bool(shape & 4),
        halting="stop" if shape & 8 else "",
        mutable=bool(shape & 16),
        add_app=lambda entry: None,
        end_if_done=lambda: None,
        attempt=lambda action: action(),
        halt=lambda why, seconds: None,
    )


def _messages(data: bytes) -> Iterator[bytes]:
    while len(data) > 2:
        size = int.from_bytes(data[:2])
        yield data[2 : 2 + size]
        data = data[2 + size :]


def run(data: bytes) -> None:
    if not data:
        return
    pod = _pod(data[0])
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    theirs.setblocking(False)
    connections: list[Connection] = []
    handle = Requests(pod).handle
    with theirs:
        connection = Connection(_Loop(), ours, handle, connections)  # type: ignore[arg-type]
        connections.append(connection)
        for message in _messages(data[1:]):
            if not message or connection.closed:
                continue
            attached = connection.on_frame is not None
            theirs.send(message)
            connection._ready(READABLE)
            _check_answers(theirs, attached)
        connection.close()
    for app in pod.apps.values():
        assert not app.watchers, "a client that has gone is still attached"
        assert not app.on_streams
        assert app.streams is None or not app.streams.sinks


def _check_answers(client: socket.socket, attached: bool) -> None:
    while True:
        try:
            answer = client.recv(1 << 17)
        except BlockingIOError:
            return
        if not answer:
            return
        if not attached:
            with refusals():
                answer_of(answer)
            assert b"internal error" not in answer, answer


def _framed(*messages: bytes) -> bytes:
    return b"".join(len(one).to_bytes(2) + one for one in messages)


def seeds() -> Iterator[bytes]:
    for shape in (0, 5, 7, 21, 23, 28):
        for op in _OPERATIONS:
            request = {"op": op, "app": "web"}
            yield bytes([shape]) + _framed(json.dumps(request).encode())
    attach = {"op": "attach", "app": "web", "wait": True, "size": [24, 80], "streams": ["stdin"]}
    for shape in (4, 5, 7):
        requests = (json.dumps(attach).encode(), b"iabc", b"r24 80", b"c")
        yield bytes([shape]) + _framed(*requests)
    yield bytes([21]) + _framed(b'{"op": "stop", "app": "web", "seconds": 1.5}', b"[]", b"x")
    # What the protocol's parser does with an answer that is none.
    yield bytes([4]) + _framed(b'{"op": "status"}', b'{"op": "halt", "force": true}')


def mutate(data: bytes, rng: random.Random) -> bytes:
    messages = list(_messages(data[1:])) or [b'{"op": "status", "app": "web"}']
    at = rng.randrange(len(messages))
    action = rng.randrange(6)
    if action == 0:
        del messages[at]
    elif action == 1:
        messages.insert(
            at, rng.choice((b"i", b"r1 2", b"r\xb2 1", b"r99999 1", b"c", b"q", b"[", b"{}"))
        )
    elif messages[at][:1] == b"{":
        messages[at] = _mutate_json(messages[at], rng)
    else:
        messages[at] = messages[at][: rng.randrange(len(messages[at]) + 1)] + rng.randbytes(1)
    shape = data[0] if data and rng.random() < 0.8 else rng.randrange(32)
    return bytes([shape]) + _framed(*messages[:20])


TARGET = Target(
    run,
    (
        "pods/loop/control_socket.py",
        "pods/monitor/control_requests.py",
        "pods/monitor/attachment.py",
        "base/json_files.py",
    ),
    seeds,
    mutate,
)
