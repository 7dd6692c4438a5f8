"""Events: subscribers, retention, and partially written lines."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from pathlib import Path

import pytest

from ociruntime.manager.containers import events
from ociruntime.manager.containers.events import EventBus
from ociruntime.manager.containers.pod_watch import parse


def opened(path: Path) -> EventBus:
    bus = EventBus(str(path))
    bus.open()
    return bus


def test_listeners(tmp_path: Path) -> None:
    async def listen() -> list[str]:
        bus = opened(tmp_path / "events")
        bus.publish("create", "1", "web")
        past = bus.subscribe("2020-01-01T00:00:00Z")
        future = bus.subscribe()
        bus.publish("start", "1", "web", {"at": "then"})
        bus.publish("start", "1", "web", {"at": "then"})
        bus.close()
        old = [event["kind"] async for event in past]
        return old + [event["kind"] async for event in future]

    assert asyncio.run(listen()) == ["create", "start", "start"]


def test_what_is_kept(tmp_path: Path) -> None:
    bus = opened(tmp_path / "events")
    bus.publish("create", "1", "web", {"at": "1"})
    bus.close()
    with open(tmp_path / "events", "a", encoding="utf-8") as file:
        file.write('{"time": "2026-01-01T00:00:00Z", "kind": "start", "id"')
    again = opened(tmp_path / "events")
    assert again.has("create", "1", "1")
    again.publish("create", "1", "web", {"at": "1"})
    again.publish("destroy", "1", "web", {"at": "1"})
    again.close()
    third = opened(tmp_path / "events")
    assert [event["kind"] for event in third.since("2020-01-01T00:00:00Z")] == [
        "create",
        "destroy",
    ]
    third.close()


def test_a_full_file_makes_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "ROTATED_AT", 1000)
    bus = opened(tmp_path / "events")
    for number in range(30):
        bus.publish("start", str(number), "web")
    bus.close()
    kept = [tmp_path / "events.1", tmp_path / "events"]
    assert all(path.stat().st_size <= 1000 for path in kept)
    last = [json.loads(line)["id"] for path in kept for line in path.read_text().splitlines()]
    assert last == [str(number) for number in range(30)][-len(last) :]


def test_a_rotation_that_fails_is_finished_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next event is logged, and no other file was closed."""
    monkeypatch.setattr(events, "ROTATED_AT", 250)
    bus = opened(tmp_path / "events")
    for number in range(2):
        bus.publish("start", str(number), "web")

    def fail(path: str, flags: int, mode: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr("os.open", fail)
        for number in range(2, 4):
            bus.publish("start", str(number), "web")
    other = os.open("/dev/null", os.O_RDONLY)  # gets the number of the closed log
    bus.publish("start", "4", "web")
    bus.close()
    os.close(other)
    kept = [tmp_path / "events.1", tmp_path / "events"]
    last = [json.loads(line)["id"] for path in kept for line in path.read_text().splitlines()]
    assert last == ["0", "1", "4"]


def test_a_slow_listener_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "QUEUED", 3)

    async def listen() -> int:
        bus = opened(tmp_path / "events")
        slow = bus.subscribe()
        for _ in range(5):
            bus.publish("start", "1", "web")
        count = len([event async for event in slow])
        bus.close()
        return count

    assert asyncio.run(listen()) == 2


def test_what_inotify_says() -> None:
    data = bytes.fromhex("01000000 80000000 00000000 08000000") + b"abc\0\0\0\0\0"
    data += bytes.fromhex("02000000 10000000 00000000 00000000")
    assert list(parse(data)) == [(1, 0x80, b"abc"), (2, 0x10, b"")]
