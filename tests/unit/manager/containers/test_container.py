"""Exits of containers and their consequences; restart policies and delays."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

import pytest

from ociruntime.base.errors import HostError
from ociruntime.manager.containers.container import Container
from ociruntime.manager.containers.container_records import Record
from ociruntime.manager.containers.pod_status import LastRun, PodStatus
from ociruntime.manager.containers.restarts import next_delay, should_restart


class ExitedPod:
    """A pod whose app has exited."""

    def status(self) -> PodStatus:
        last = LastRun(started_at="2026-01-01T00:00:00Z", finished_at="2026-01-01T00:00:01Z")
        last.exit_code = 3
        return PodStatus("exited", "exited", last)


class FakeServices:
    """Shared services whose first save fails; background tasks and events are only recorded."""

    closing = False

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.published: list[str] = []
        self.saved = 0
        self.events = self

    def pod_handle(self, uuid: str) -> ExitedPod:
        return ExitedPod()

    def publish(self, kind: str, *_: object) -> None:
        self.published.append(kind)

    async def save(self, record: Record) -> None:
        self.saved += 1
        if self.saved == 1:
            raise HostError("write /m/containers/1/container.state", OSError(28, "No space"))

    def begin(self, work: Any, what: str) -> Any:  # noqa: ANN401 - a coroutine, a task
        work.close()
        self.begun.append(what)


@pytest.mark.parametrize(
    ("spec", "follow_up"),
    [
        ({"restart_policy": {"name": "always"}}, 'restart container "web"'),
        ({"auto_remove": True}, 'remove container "web"'),
    ],
)
def test_an_exit_whose_record_cannot_be_saved(
    spec: dict[str, Any], follow_up: str, caplog: pytest.LogCaptureFixture
) -> None:
    services = FakeServices()
    record = Record("1", "web", "", "", [], "", "uuid", spec, wanted="running")

    async def wait() -> dict[str, Any]:
        container = Container(cast("Any", services), "1", record, lambda _: None)
        waiting = asyncio.ensure_future(container.wait("next-exit"))
        await asyncio.sleep(0)
        await container.resume()
        return await asyncio.wait_for(waiting, 5)

    with caplog.at_level(logging.WARNING, "ocid"):
        assert asyncio.run(wait())["exit_code"] == 3
    assert services.published == ["start", "die"]
    assert set(services.begun) == {follow_up}
    assert 'container "web": write /m/containers/1' in caplog.text


def test_delays_double_up_to_a_minute() -> None:
    delays = [0.0]
    for _ in range(12):
        delays.append(next_delay(delays[-1], 0.5))
    assert delays[1:5] == [0.1, 0.2, 0.4, 0.8]
    assert delays[-1] == 60.0
    assert next_delay(60.0, 10.0) == 0.1


@pytest.mark.parametrize(
    ("policy", "wanted", "code", "count", "restarts", "at_reload"),
    [
        ("no", "running", 1, 0, False, False),
        ("on-failure", "running", 0, 0, False, False),
        ("on-failure", "running", 1, 0, True, True),
        ("on-failure", "running", None, 0, True, True),
        ("on-failure", "running", 1, 3, False, False),
        ("on-failure", "stopped", 143, 0, False, False),
        ("always", "running", 0, 99, True, True),
        ("always", "stopped", 143, 0, False, True),
        ("unless-stopped", "running", 0, 99, True, True),
        ("unless-stopped", "stopped", 143, 0, False, False),
    ],
)
def test_restart_policies(
    policy: str, wanted: str, code: int | None, count: int, restarts: bool, at_reload: bool
) -> None:
    spec = {"restart_policy": {"name": policy, "maximum": 3 if policy == "on-failure" else 0}}
    record = Record("1", "web", "", "", [], "", "", spec, wanted, ever_started=True)
    record.restart_count = count
    record.last = LastRun("then", "later", code)
    assert should_restart(record) == restarts
    assert should_restart(record, at_reload=True) == at_reload
    record.ever_started = False
    assert not should_restart(record, at_reload=True)
