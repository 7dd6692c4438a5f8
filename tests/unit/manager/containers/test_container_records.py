"""Records: writing and reading them, and what a pod's status adds to a container's."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from ociruntime.base.errors import ManagerError
from ociruntime.manager.containers.container_records import (
    Record,
    RecordStore,
    answer,
    corrupt_answer,
    from_text,
    to_text,
)
from ociruntime.manager.containers.pod_status import LastRun, PodStatus

ID = "ab" * 32


def record(**changes: Any) -> Record:  # noqa: ANN401 - JSON
    made = Record(ID, "web", "busybox", "sha256:1", ["sh"], "2026-01-01T00:00:00Z", "uuid", {})
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def test_there_and_back() -> None:
    last = LastRun("2026-01-01T00:00:00Z", None, 3, 9, True, "why")
    one = record(last=last, wanted="running", restart_count=2, spec={"env": {"A": "ä"}})
    assert from_text(to_text(one)) == one


def test_members_that_may_be_missing() -> None:
    document = json.loads(to_text(record()))
    for name in ("wanted", "ever_started", "restart_count", "seen_start", "seen_end", "last"):
        del document[name]
    assert from_text(json.dumps(document).encode()) == record()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"name": None}, 'member "name"'),
        ({"command": "sh"}, 'member "command"'),
        ({"more": 1}, 'unknown member "more"'),
        ({"last": {"exit_code": "3"}}, 'member "exit_code"'),
        ({"last": []}, 'member "last"'),
    ],
)
def test_damaged_members(change: dict[str, Any], why: str) -> None:
    document = json.loads(to_text(record())) | change
    with pytest.raises(ManagerError, match=why):
        from_text(json.dumps(document).encode())


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"id": "a"', b"\xff", b"null"])
def test_damaged_text(text: bytes) -> None:
    with pytest.raises(ManagerError):
        from_text(text)


def test_the_answer_has_every_member() -> None:
    told = answer(record(), PodStatus())
    assert list(told) == (
        "id name status image rootfs command created_at started_at finished_at exit_code signal "
        "oom_killed error pid pod restart_policy restart_count labels auto_remove stop_signal "
        "stop_timeout addresses ports spec"
    ).split(" ")
    assert corrupt_answer(ID, "why").keys() == told.keys()
    assert (told["stop_timeout"], told["stop_signal"]) == (10, "SIGTERM")


RUN = LastRun(started_at="then")
EXITED = LastRun(started_at="then", finished_at="later", exit_code=0)


@pytest.mark.parametrize(
    ("pod_status", "ever_started", "status", "error"),
    [
        (PodStatus("running", "prepared"), False, "created", ""),
        (PodStatus("prepared", ""), False, "created", ""),
        # Its pod is being run, or a client waits for its start.
        (PodStatus("running", ""), False, "created", ""),
        (PodStatus("running", "prepared"), True, "stopped", ""),
        (PodStatus("running", "prepared", RUN), True, "restarting", ""),
        (PodStatus("running", "running", RUN), True, "running", ""),
        (PodStatus("running", "stopping", RUN), True, "running", ""),
        (PodStatus("running", "running", RUN, paused=True), True, "paused", ""),
        (PodStatus("running", "exited", EXITED), True, "running", ""),
        (PodStatus("running", "deleting", EXITED), True, "removing", ""),
        (PodStatus("running", "odd"), True, "unknown", ""),
        (PodStatus("exited", "running", RUN), True, "stopped", "exit status unknown"),
        (PodStatus("exited", "exited", EXITED), True, "stopped", ""),
        (PodStatus("exited", "prepared"), False, "created", ""),
        (PodStatus("gone"), True, "stopped", "the container"),
        (PodStatus("gone"), False, "created", "the container"),
        (PodStatus(problem="read state.json"), True, "unknown", "read state.json"),
        (PodStatus("preparing"), False, "unknown", ""),
    ],
)
def test_status(pod_status: PodStatus, ever_started: bool, status: str, error: str) -> None:
    assert pod_status.of_container(ever_started) == status
    assert pod_status.error.startswith(error)
    assert bool(pod_status.error) == bool(error)


@pytest.mark.parametrize(
    ("pod_status", "last_start", "end"),
    [
        (PodStatus("running", "running", RUN), "then", ""),
        (PodStatus("running", "prepared", RUN), "then", ""),
        (PodStatus("running", "exited", EXITED), "then", ""),
        (PodStatus("exited", "exited", EXITED), "then", "later"),
        (PodStatus("exited", "running", RUN), "then", "unseen then"),
        (PodStatus("exited", "prepared"), None, ""),
        (PodStatus("gone"), "then", "unseen then"),
        (PodStatus("gone"), None, ""),
        (PodStatus(problem="no"), "then", ""),
    ],
)
def test_ends(pod_status: PodStatus, last_start: str | None, end: str) -> None:
    assert pod_status.end_of_run(last_start) == end


def test_a_daemon_that_was_killed_while_it_forked(tmp_path: Path) -> None:
    """The child shares its lock until it executes its program."""
    first = RecordStore(str(tmp_path))
    first.open()
    timer = threading.Timer(0.1, first.close)
    timer.start()
    second = RecordStore(str(tmp_path))
    second.open()
    timer.join()
    second.close()


def test_a_store(tmp_path: Path) -> None:
    store = RecordStore(str(tmp_path))
    store.open()
    with pytest.raises(ManagerError, match="another ocid"):
        RecordStore(str(tmp_path)).open()
    store.begin(ID, ["v"])
    assert store.has(ID, "creating")
    store.save(record())
    assert store.load(ID) == record()
    (tmp_path / "containers" / ID / ".tmp-1").write_text("of one who was killed")
    store.forget(ID, "creating", "pod")
    assert store.ids() == [ID]
    assert [path.name for path in (tmp_path / "containers" / ID).iterdir()] == ["container.state"]
    store.write_marker(ID, "removing")
    assert store.has(ID, "removing")
    store.remove(ID)
    store.remove(ID)
    assert store.ids() == []
    store.close()
    again = RecordStore(str(tmp_path))
    again.open()
    again.close()


def test_a_record_of_another_container(tmp_path: Path) -> None:
    store = RecordStore(str(tmp_path))
    store.open()
    other = "cd" * 32
    store.begin(other, [])
    (tmp_path / "containers" / other / "container.state").write_bytes(to_text(record()))
    with pytest.raises(ManagerError, match=f"another container, {ID}"):
        store.load(other)
    store.close()
