"""Clients of a container: those attached, and those that wait."""

from __future__ import annotations

import asyncio

import pytest

from ociruntime.manager.containers.attached_clients import Clients


def test_a_condition_wakes_those_that_wait_for_it() -> None:
    async def wait() -> None:
        all_clients = Clients()
        exits = [asyncio.ensure_future(all_clients.wait("next-exit")) for _ in range(2)]
        removal = asyncio.ensure_future(all_clients.wait("removed"))
        cancelled = asyncio.ensure_future(all_clients.wait("next-exit"))
        await asyncio.sleep(0)
        cancelled.cancel()
        all_clients.notify(("not-running", "next-exit"), {"exit_code": 3})
        assert [await one for one in exits] == [{"exit_code": 3}] * 2
        assert not removal.done()
        all_clients.abandon(ValueError("shutting down"))
        with pytest.raises(ValueError, match="shutting down"):
            await removal

    asyncio.run(asyncio.wait_for(wait(), 10))


def test_attached_clients_are_counted() -> None:
    all_clients = Clients()
    counted = [all_clients.any_attached]
    with all_clients.attached():
        with all_clients.attached():
            pass
        counted.append(all_clients.any_attached)
    assert [*counted, all_clients.any_attached] == [False, True, False]
