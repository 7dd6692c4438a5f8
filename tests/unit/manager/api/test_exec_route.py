"""Programs of ``exec``, with stubs for the daemon and the client."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any, cast

import pytest
from aiohttp import WSMessage, WSMsgType, web

from ociruntime.base.errors import BadRequest, HostError
from ociruntime.manager.api import exec_route
from ociruntime.manager.api.exec_streams import ROOM
from tests.support.descriptors import open_descriptors

GUARD = 30.0  # seconds after which a test is given up


class Client:
    """A client that receives while ``gate`` is open, and sends the messages ``says``."""

    def __init__(self, *says: WSMessage) -> None:
        self._says = list(says)
        self.told: list[dict[str, Any]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.got = b""

    async def send_bytes(self, data: bytes) -> None:
        await self.gate.wait()
        self.got += data[1:]

    async def send_json(self, words: dict[str, Any]) -> None:
        self.told.append(words)

    def __aiter__(self) -> Client:
        return self

    async def __anext__(self) -> Any:  # noqa: ANN401 - a message
        await (asyncio.sleep(0) if self._says else asyncio.Event().wait())
        return self._says.pop(0)


def run(command: list[str], act: Callable[[exec_route._Execution, Client], Any]) -> tuple[int, int]:
    """Run a program; return its exit code, and the number of bytes that the client has received."""

    async def both() -> tuple[int, int]:
        client = Client()
        execution = exec_route._Execution({})
        acting = asyncio.ensure_future(act(execution, client))
        code = await execution.run(cast("web.WebSocketResponse", client), command)
        await acting
        return code, len(client.got)

    return asyncio.run(asyncio.wait_for(both(), GUARD))


def test_a_slow_client_gets_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timeout for other processes to close the pipe also runs while nothing reads it."""
    monkeypatch.setattr(exec_route, "DRAIN_TIMEOUT", 0)

    async def slow(execution: exec_route._Execution, client: Client) -> None:
        client.gate.clear()
        while execution._process is None or execution._process.returncode is None:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        client.gate.set()

    size = 32768 + 20000
    script = f"import os; os.write(1, b'x' * {size}); os._exit(3)"
    assert run([sys.executable, "-c", script], slow) == (3, size)


# Exits when its output has no reader any more.
SILENT = f"{sys.executable} -c 'import select; p = select.poll(); p.register(1, 0); p.poll()'"


@pytest.mark.parametrize("script", ["yes & exit 4", f"{SILENT} & exit 4"])
def test_what_stays_behind_keeps_nobody(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A remaining process holds the pipe open, and writes without end or nothing."""
    monkeypatch.setattr(exec_route, "DRAIN_TIMEOUT", 0.05)

    async def nothing(execution: exec_route._Execution, client: Client) -> None:
        pass

    script = f"exec 2>/dev/null; {script}"
    assert run(["sh", "-c", script], nothing)[0] == 4


def binary(data: bytes) -> WSMessage:
    return WSMessage(WSMsgType.BINARY, b"\0" + data, None)


def words(text: str) -> WSMessage:
    return WSMessage(WSMsgType.TEXT, text, None)


def given(command: list[str], *says: WSMessage) -> tuple[int, bytes, list[dict[str, Any]]]:
    """Return the exit code and output of a program with input, and the messages to its client."""

    async def whole() -> tuple[int, bytes, list[dict[str, Any]]]:
        client = Client(*says)
        execution = exec_route._Execution({"stdin": True})
        try:
            code = await execution.run(cast("web.WebSocketResponse", client), command)
        finally:
            assert execution._process is not None
            await execution._process.wait()
        return code, client.got, client.told

    return asyncio.run(asyncio.wait_for(whole(), GUARD))


def test_a_signal_does_not_wait_behind_input() -> None:
    """The client sends no more than it was granted."""
    parts = [binary(b"x" * (ROOM // 8)) for _ in range(8)]
    code, _, told = given(["sleep", "60"], *parts, words('{"signal": 15}'))
    assert code == 128 + 15
    assert told == [{"room": ROOM}]


def test_input_and_its_end() -> None:
    parts = [binary(b"%07d\n" % n * 8192) for n in range(16)]
    code, out, told = given(["cat"], *parts, words('{"close": "stdin"}'))
    assert (code, out) == (0, b"".join(part.data[1:] for part in parts))
    assert sum(one["room"] for one in told) >= ROOM + len(out) // 2


def test_input_that_is_not_read_any_more() -> None:
    parts = [binary(b"x" * ROOM) for _ in range(4)]
    code, out, _ = given(
        ["sh", "-c", "echo no; exec <&- sleep 60"], *parts, words('{"signal": 15}')
    )
    assert (code, out) == (143, b"no\n")


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ("9", "KILL and STOP"),
        ("19", "KILL and STOP"),
        ("0", "signal number"),
        ("65", "signal number"),
        ("true", "signal number"),
        ('"TERM"', "signal number"),
    ],
)
def test_signals_that_are_refused(number: str, text: str) -> None:
    with pytest.raises(BadRequest, match=text):
        given(["sleep", "60"], words(f'{{"signal": {number}}}'))


@pytest.mark.parametrize("wanted", [{}, {"stdin": True}, {"tty": True}])
@pytest.mark.parametrize("program", ["/no/program", "a\0b"])
def test_what_cannot_be_started_leaves_nothing_open(wanted: dict[str, Any], program: str) -> None:
    async def whole() -> tuple[list[str], list[str]]:
        before = open_descriptors()
        client = cast("web.WebSocketResponse", Client())
        with pytest.raises((HostError, ValueError)):
            await exec_route._Execution(wanted).run(client, [program])
        return before, open_descriptors()

    before, after = asyncio.run(whole())
    assert after == before
