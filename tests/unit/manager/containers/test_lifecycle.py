"""What follows on an end."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

import pytest

from ociruntime.base.errors import HostError
from ociruntime.manager.containers import lifecycle
from ociruntime.manager.containers.container import Container
from ociruntime.manager.containers.pod_status import PodStatus
from ociruntime.manager.containers.record import Last, Record


class FakeEngine:
    """Cannot save the first time; what it is told to begin is only counted."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.told: list[str] = []
        self.saved = 0
        self.events = self

    def publish(self, kind: str, *_: object) -> None:
        self.told.append(kind)

    async def save(self, record: Record) -> None:
        self.saved += 1
        if self.saved == 1:
            raise HostError("write /m/containers/1/container.state", OSError(28, "No space"))

    def begin(self, work: Any, what: str) -> Any:  # noqa: ANN401 - a coroutine, a task
        work.close()
        self.begun.append(what)


class Ended:
    """A pod whose app has ended."""

    def pod_status(self) -> PodStatus:
        last = Last(started_at="2026-01-01T00:00:00Z", finished_at="2026-01-01T00:00:01Z")
        last.exit_code = 3
        return PodStatus("running", "exited", last)


@pytest.mark.parametrize(
    ("spec", "follows"),
    [
        ({"restart_policy": {"name": "always"}}, 'restart container "web"'),
        ({"auto_remove": True}, 'remove container "web"'),
    ],
)
def test_an_end_that_cannot_be_written_down(
    spec: dict[str, Any], follows: str, caplog: pytest.LogCaptureFixture
) -> None:
    engine = FakeEngine()
    record = Record("1", "web", "", "", [], "", "uuid", spec, wanted="running")
    container = Container("1", record, cast("Any", Ended()))

    async def end() -> dict[str, Any]:
        waiting = asyncio.get_running_loop().create_future()
        container.waiters.append(("not-running", waiting))
        await lifecycle.reconcile(cast("Any", engine), container)
        assert waiting.done()
        return cast("dict[str, Any]", waiting.result())

    with caplog.at_level(logging.WARNING, "ocid"):
        assert asyncio.run(end())["exit_code"] == 3
    assert engine.told == ["start", "die"]
    assert engine.begun == [follows]
    assert 'save the record of container "web": write /m/containers/1' in caplog.text
