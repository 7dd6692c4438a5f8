"""Records of apps on a disk that is temporarily full."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ociruntime.base.errors import HostError
from ociruntime.pods.loop.event_loop import Loop
from ociruntime.pods.monitor import app_record
from ociruntime.pods.monitor.app_record import RecordFile, new_record

STATE, STATUS = Path("state.json"), Path("status")


@pytest.fixture
def loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loop]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(app_record, "RETRY_INTERVAL", 0.01)
    one = Loop()
    yield one
    one.close()


def written() -> str:
    state = json.loads(STATE.read_text())["state"]
    return f"{state} {STATUS.read_text().strip()}" if STATUS.exists() else str(state)


def is_late(file: RecordFile) -> bool:
    """Return the present value; a type checker expects an attribute not to change."""
    return file.is_late


def go_round(loop: Loop, seconds: float) -> None:
    loop.stopped = False
    loop.after(seconds, lambda: setattr(loop, "stopped", True))
    loop.run()


@pytest.mark.parametrize("name", ["state.json.new", "status.new"])
def test_an_end(loop: Loop, name: str) -> None:
    record = new_record()
    file = RecordFile(loop, ".", record)
    file.save()
    Path(name).mkdir()
    record.update(state="exited", exit_code=3)
    file.save_exit()
    go_round(loop, 0.1)
    file.save_or_retry()
    assert is_late(file)
    assert written().startswith("prepared")
    Path(name).rmdir()
    go_round(loop, 0.1)
    assert written() == "exited 3"
    assert not is_late(file)
    assert loop.is_quiet, "one more attempt is to come"


def test_a_start(loop: Loop) -> None:
    """It is refused; the exit of the previous run is not written after the new one has begun."""
    record = new_record()
    file = RecordFile(loop, ".", record)
    in_the_way = Path("status.new")
    in_the_way.mkdir()
    record.update(state="exited", exit_code=3)
    file.save_exit()
    with pytest.raises(HostError, match=r"write .\./status.: is a directory"):
        file.save()
    record.update(state="prepared", exit_code=None)
    file.save_start()
    in_the_way.rmdir()
    go_round(loop, 0.1)
    assert written() == "prepared"
    assert loop.is_quiet
    Path("state.json.new").mkdir()
    with pytest.raises(HostError, match=r"write .\./state.json.: is a directory"):
        file.save_start()
    assert not is_late(file), "it has not happened"


def test_an_old_exit_code_that_stays(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The app is not started, and the pod goes on."""
    file = RecordFile(loop, ".", new_record())

    def fail(path: str) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(app_record, "remove_file", fail)
    with pytest.raises(HostError, match=r"remove .\./status.: input/output error"):
        file.save_start()


def test_the_last_attempt(loop: Loop) -> None:
    file = RecordFile(loop, ".", new_record())
    file.save_late()
    assert not STATE.exists(), "nothing was late"
    Path("state.json.new").mkdir()
    file.save_or_retry()
    with pytest.raises(HostError, match=r"write .\./state.json.: is a directory"):
        file.save_late()
    go_round(loop, 0.05)
    Path("state.json.new").rmdir()
    go_round(loop, 0.05)
    assert not STATE.exists(), "that was the last one"
