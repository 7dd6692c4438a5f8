"""Programs of ``exec`` between the daemon and a client, of whom only what counts is there."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any, cast

import pytest
from aiohttp import web

from ociruntime.manager import executions

GUARD = 30.0  # seconds after which a test is given up


class Client:
    """Takes what is sent when ``gate`` is open, and says nothing itself."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.got = b""

    async def send_bytes(self, data: bytes) -> None:
        await self.gate.wait()
        self.got += data[1:]

    def __aiter__(self) -> Client:
        return self

    async def __anext__(self) -> Any:  # noqa: ANN401 - a message
        await asyncio.Event().wait()


def run(command: list[str], act: Callable[[executions._Execution, Client], Any]) -> tuple[int, int]:
    """The exit code, and how many bytes a client got whom ``act`` goes along with."""

    async def both() -> tuple[int, int]:
        client = Client()
        execution = executions._Execution({})
        acting = asyncio.ensure_future(act(execution, client))
        code = await execution.run(cast("web.WebSocketResponse", client), command)
        await acting
        return code, len(client.got)

    return asyncio.run(asyncio.wait_for(both(), GUARD))


def test_a_slow_client_gets_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time that others are given to close the pipe runs while nobody reads."""
    monkeypatch.setattr(executions, "LEFT_OPEN", 0)

    async def slow(execution: executions._Execution, client: Client) -> None:
        client.gate.clear()
        while execution._process is None or execution._process.returncode is None:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        client.gate.set()

    size = 32768 + 20000
    script = f"import os; os.write(1, b'x' * {size}); os._exit(3)"
    assert run([sys.executable, "-c", script], slow) == (3, size)


# Ends when nobody can read what it would write.
SILENT = f"{sys.executable} -c 'import select; p = select.poll(); p.register(1, 0); p.poll()'"


@pytest.mark.parametrize("script", ["yes & exit 4", f"{SILENT} & exit 4"])
def test_what_stays_behind_keeps_nobody(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds the pipe open, and writes without end or nothing."""
    monkeypatch.setattr(executions, "LEFT_OPEN", 0.05)

    async def nothing(execution: executions._Execution, client: Client) -> None:
        pass

    script = f"exec 2>/dev/null; {script}"
    assert run(["sh", "-c", script], nothing)[0] == 4
