"""An app after hibernation, in the restored monitor."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ociruntime.base import json_files
from ociruntime.pods.bundle.pod_context import PodContext
from ociruntime.pods.bundle.runtime_calls import RuntimeCalls
from ociruntime.pods.loop.event_loop import Loop
from ociruntime.pods.monitor.app_run import AppRun

ENTRY: dict[str, Any] = {
    "name": "a",
    "app": {"streams": {"stdin": "stream", "stdout": "log"}, "stopSignal": "SIGRTMIN+3"},
}
STATE = Path("apps/a/state.json")


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PodContext]:
    monkeypatch.chdir(tmp_path)
    for directory in ("apps/a", "logs"):
        Path(directory).mkdir(parents=True)
    loop = Loop()
    yield PodContext(loop, str(tmp_path), RuntimeCalls("/bin/true", "uuid"))
    loop.close()


def through_memory(app: AppRun) -> dict[str, Any]:
    return json_files.parse(json_files.text_of(app.snapshot()), "it")


def test_one_that_does_not_run(context: PodContext) -> None:
    app = AppRun(context, ENTRY)
    app.record.update(state="exited", restarts=3, exit_code=7)
    assert app.is_quiet
    STATE.unlink()
    snapshot = through_memory(app)
    again = AppRun(context, snapshot["entry"], snapshot)
    assert again.record == app.record
    assert again.snapshot() == app.snapshot()
    assert not STATE.exists(), "nothing has changed"
    assert snapshot["entry"]["app"]["stopSignal"] == str(signal.SIGRTMIN + 3)


def test_one_that_runs(context: PodContext) -> None:
    child = os.posix_spawn("/bin/sleep", ["sleep", "60"], {})
    record = {**AppRun(context, ENTRY).record, "state": "running", "pid": child}
    ours, its = os.pipe()
    os.set_blocking(ours, False)
    log = os.open("logs/a.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    streams = {"readers": [[ours, "stdout"]], "input": -1, "terminal": -1}
    snapshot = {"entry": ENTRY, "record": record, "pid": child, "log": log, "streams": streams}
    app = AppRun(context, ENTRY, snapshot)
    assert app.is_quiet
    assert through_memory(app)["streams"] == streams
    os.write(its, b"written while nobody was there\n")
    os.close(its)
    os.kill(child, signal.SIGTERM)

    def ended(one: AppRun) -> None:
        context.loop.stopped = one is app

    app.on_end = ended
    context.loop.run()
    assert json.loads(STATE.read_text())["exit_code"] == 128 + signal.SIGTERM
    assert Path("logs/a.log").read_text().endswith(" stdout F written while nobody was there\n")
    assert "pid" not in through_memory(app)


def test_one_on_its_way(context: PodContext) -> None:
    app = AppRun(context, ENTRY)
    app.start(lambda error: None)
    assert not app.is_quiet
    context.loop.after(5, lambda: setattr(context.loop, "stopped", True))
    app.on_end = lambda one: setattr(context.loop, "stopped", True)
    context.loop.run()
    assert "pid" not in through_memory(app)


def test_one_that_is_not_written_down(context: PodContext) -> None:
    app = AppRun(context, ENTRY)
    in_the_way = Path("apps/a/status.new")
    in_the_way.mkdir()
    app.on_end = lambda one: setattr(context.loop, "stopped", True)
    context.loop.after(60, lambda: setattr(context.loop, "stopped", True))
    app.start(lambda error: None)  # /bin/true makes no container
    context.loop.run()
    assert not app.is_active
    assert not app.is_quiet
    in_the_way.rmdir()
    app.save_late()
    assert is_quiet(app)
    assert json.loads(STATE.read_text())["state"] == "exited"


def is_quiet(app: AppRun) -> bool:
    """Return the present value; a type checker expects an attribute not to change."""
    return app.is_quiet
