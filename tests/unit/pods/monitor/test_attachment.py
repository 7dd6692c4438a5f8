"""Clients that attach to an app, and the requests that a monitor refuses."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from ociruntime.base.errors import PodError, RuntimeFailure
from ociruntime.pods.bundle.pod_context import PodContext
from ociruntime.pods.bundle.runtime_calls import RuntimeCalls
from ociruntime.pods.loop.control_socket import Connection
from ociruntime.pods.loop.event_loop import Loop
from ociruntime.pods.monitor.app_run import AppRun
from ociruntime.pods.monitor.app_streams import AppStreams
from ociruntime.pods.monitor.attachment import Attachment, endpoints
from ociruntime.pods.monitor.control_requests import Requests
from ociruntime.pods.monitor.monitor import Monitor


class Client:
    """A connection that records what it would send."""

    def __init__(self) -> None:
        self.answers: list[dict[str, Any]] = []
        self.refusals: list[str] = []
        self.sent: list[bytes] = []
        self.paused = False
        self.on_frame: Any = None
        self.on_close: Any = None

    def answer(self, value: dict[str, Any]) -> None:
        self.answers.append(value)

    def refuse(self, failure: RuntimeFailure) -> None:
        self.refusals.append(str(failure))

    def send(self, message: bytes, *, needed: bool = False) -> None:
        del needed
        self.sent.append(message)

    def pause(self, paused: bool) -> None:
        self.paused = paused


@pytest.fixture
def loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loop]:
    monkeypatch.chdir(tmp_path)
    one = Loop()
    yield one
    one.close()


def app_with(loop: Loop, **kinds: str) -> AppRun:
    os.makedirs("apps/a")
    context = PodContext(loop, os.getcwd(), RuntimeCalls("/runtime", "uuid", False))
    return AppRun(context, {"name": "a", "app": {"streams": kinds}})


@pytest.fixture
def app(loop: Loop) -> Iterator[AppRun]:
    """A running app whose stdin and stdout are streams."""
    one = app_with(loop, stdin="stream", stdout="stream", stderr="null")
    one.streams = AppStreams(loop)
    one.streams.make(one.kinds, terminal=False)
    one.record["state"] = "running"
    yield one
    if one.streams is not None:
        one.streams.close()


def attach(app: AppRun, **request: object) -> Client:
    client = Client()
    Attachment(cast("Connection", client), app, request)
    return client


def is_paused(client: Client) -> bool:
    """Return the present value; a type checker expects an attribute not to change."""
    return client.paused


def test_data_both_ways(app: AppRun) -> None:
    client = attach(app)
    assert client.answers == [{"tty": False, "streams": ["stdin", "stdout"]}]
    assert app.streams is not None
    client.on_frame(b"iin")
    client.on_frame(b"?unknown")
    client.on_frame(b"r24 80")  # it has no terminal
    assert os.read(app.streams.app_ends[0], 9) == b"in"
    os.write(app.streams.app_ends[1], b"out")
    app.streams.drain()
    assert client.sent == [b"oout"]
    client.on_frame(b"c")
    assert os.read(app.streams.app_ends[0], 9) == b""
    client.on_frame(b"imore")
    assert not app.streams.has_input


def test_a_client_that_has_not_asked_for_a_stream(app: AppRun) -> None:
    client = attach(app, streams=["stdin"])
    assert app.streams is not None
    os.write(app.streams.app_ends[1], b"out")
    app.streams.drain()
    assert client.sent == []
    output = attach(app, streams=["stdout"])
    output.on_frame(b"iin")
    os.set_blocking(app.streams.app_ends[0], False)
    with pytest.raises(BlockingIOError):
        os.read(app.streams.app_ends[0], 9)


def test_an_app_that_does_not_read(app: AppRun) -> None:
    """The client is not read from until there is room again."""
    client = attach(app)
    assert app.streams is not None
    while not is_paused(client):
        client.on_frame(b"i" + bytes(1 << 16))
    while is_paused(client):
        os.read(app.streams.app_ends[0], 1 << 20)
        app.streams._write()


def test_a_disconnect_leaves_nothing(app: AppRun) -> None:
    client = attach(app)
    assert app.streams is not None
    assert (len(app.streams.sinks), len(app.streams.on_room), len(app.watchers)) == (1, 1, 1)
    client.on_close()
    assert (app.streams.sinks, app.streams.on_room, app.watchers) == ([], [], [])


def test_a_client_that_waits_for_the_start(loop: Loop) -> None:
    app = app_with(loop, stdout="stream", stderr="null", stdin="stream")
    waiting, leaving = attach(app, wait=True), attach(app, wait=True)
    assert waiting.answers == [{"tty": False, "streams": ["stdin", "stdout"]}]
    assert is_paused(waiting)
    waiting.on_frame(b"itoo early")
    leaving.on_close()
    assert len(app.on_streams) == len(app.watchers) == 1
    streams = AppStreams(loop)
    app.on_streams.pop()(streams)
    assert not is_paused(waiting)
    waiting.on_close()
    assert (streams.sinks, app.watchers) == ([], [])


@pytest.mark.parametrize(
    ("kinds", "streams"),
    [
        ({"stdin": "tty"}, ["stdin", "stdout", "stderr"]),
        ({}, ["stdout", "stderr"]),
        ({"stdin": "stream", "stdout": "null"}, ["stdin", "stderr"]),
    ],
)
def test_streams_that_the_app_will_have(
    loop: Loop, kinds: dict[str, str], streams: list[str]
) -> None:
    app = app_with(loop, **kinds)
    assert endpoints(app) == []
    assert attach(app, wait=True).answers[0]["streams"] == streams


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"streams": "stdin"}, '"streams" of .* request must .* a list'),
        ({"streams": ["stderr"]}, r'the app .* no stream "stderr" \(its streams: stdin, stdout'),
        ({"streams": [["stdin"]]}, "the app .* no stream"),
    ],
)
def test_requests_that_are_refused(app: AppRun, request_: dict[str, object], message: str) -> None:
    with pytest.raises(PodError, match=f'attach to app "a" of pod uuid: {message}'):
        attach(app, **request_)
    assert app.watchers == []


def test_an_app_that_does_not_run(loop: Loop) -> None:
    app = app_with(loop)
    with pytest.raises(PodError, match=r'app "a" of pod uuid .* state is "prepared"'):
        attach(app)
    app.busy = True
    with pytest.raises(PodError, match="is not running"):
        attach(app, wait=True)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ([24, 80], [(24, 80)]),
        ([0, 80], []),
        ([24, 10000], []),
        (["24", "80"], []),
        ([24], []),
        (None, []),
    ],
)
def test_sizes(app: AppRun, size: object, expected: list[tuple[int, int]]) -> None:
    sizes: list[tuple[int, int]] = []

    class Streams(AppStreams):
        def resize(self, rows: int, columns: int) -> None:
            sizes.append((rows, columns))

    assert app.streams is not None
    app.streams.close()
    app.streams = Streams(app.context.loop)
    client = attach(app, size=size, streams=[])
    assert sizes == expected
    for frame in (b"r", b"r1", b"r1 2 3", b"r1 x", b"r-1 2", b"r10000 2", b"r1 \xc2\xb2"):
        client.on_frame(frame)
    assert sizes == expected
    client.on_frame(b"r50 132")
    assert sizes[-1] == (50, 132)


@pytest.fixture
def monitor(loop: Loop) -> Iterator[Monitor]:
    """The monitor of a sandbox without apps, which is ready."""
    Path("runtime-config").write_text('{"runtime": "/bin/true", "mutable": true}')
    Path("pod").write_text('{"apps": [{"name": "b"}]}')
    os.makedirs("apps/b")
    one = Monitor(os.getcwd(), "uuid", os.open("/dev/null", os.O_RDONLY), print)
    one.ready = True
    yield one
    os.close(one.lock)
    one.loop.close()
    del loop


def handle(monitor: Monitor, op: str, **request: object) -> Client:
    client = Client()
    Requests(monitor).handle(cast("Connection", client), {"op": op, **request})
    return client


@pytest.mark.parametrize(
    ("op", "request_", "message"),
    [
        ("fly", {}, 'send a .* to pod uuid: unknown operation "fly"'),
        ("start", {"app": "x"}, r'pod uuid has no app "x" \(its apps: none\)'),
        ("add", {"app": "x"}, 'add app "x" to pod uuid: not found .* the manifest'),
        ("halt", {"seconds": "x"}, 'request "halt": "seconds" is \'x\' .must be .* number from 0'),
        ("halt", {"seconds": True}, 'request "halt": "seconds" is True'),
        ("halt", {"seconds": float("nan")}, 'request "halt": "seconds" is nan'),
        ("halt", {"seconds": -1}, 'request "halt": "seconds" is -1'),
    ],
)
def test_operations_that_are_refused(
    monitor: Monitor, op: str, request_: dict[str, object], message: str
) -> None:
    with pytest.raises(PodError, match=message):
        handle(monitor, op, **request_)
    assert not monitor.halting


def test_an_app_is_added_once(monitor: Monitor) -> None:
    assert handle(monitor, "add", app="b").answers == [{}]
    with pytest.raises(PodError, match=r'add app "b" to pod uuid: the pod already .* this name'):
        handle(monitor, "add", app="b")
    assert json.loads(Path("apps/b/state.json").read_text())["state"] == "prepared"
    with pytest.raises(PodError, match=r'pod uuid has no app "x" \(its apps: b\)'):
        handle(monitor, "stop", app="x")
    assert handle(monitor, "endpoints", app="b").answers == [{"endpoints": []}]
    assert handle(monitor, "rm", app="x").answers == [{}]


def test_states_in_which_a_pod_is_not_changed(monitor: Monitor) -> None:
    monitor.ready = False
    with pytest.raises(PodError, match=r"pod uuid is not .* yet"):
        handle(monitor, "add", app="b")
    monitor.halting = "halt"
    with pytest.raises(PodError, match="pod uuid is being stopped"):
        handle(monitor, "add", app="b")
    with pytest.raises(PodError, match="pod uuid is being stopped"):
        handle(monitor, "attach", app="b", wait=True)
    monitor.mutable = False
    with pytest.raises(PodError, match="pod uuid is immutable"):
        handle(monitor, "rm", app="b")
    assert monitor.apps == {}
