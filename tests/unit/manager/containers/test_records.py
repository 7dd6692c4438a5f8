"""A record's way to the disk and back, and what is told of a container by its pod."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ociruntime.base.errors import ManagerError
from ociruntime.manager.containers.pod_status import NOWHERE, Look
from ociruntime.manager.containers.record import (
    Last,
    Record,
    answer,
    corrupt_answer,
    from_text,
    to_text,
)
from ociruntime.manager.containers.record_store import RecordStore
from ociruntime.manager.containers.states import end_of, error_of, status_of

ID = "ab" * 32


def record(**changes: Any) -> Record:  # noqa: ANN401 - JSON
    made = Record(ID, "web", "busybox", "sha256:1", ["sh"], "2026-01-01T00:00:00Z", "uuid", {})
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def test_there_and_back() -> None:
    last = Last("2026-01-01T00:00:00Z", None, 3, 9, True, "why")
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
        ({"name": None}, "name has another type"),
        ({"command": "sh"}, "command has another type"),
        ({"more": 1}, "unknown member more"),
        ({"last": {"exit_code": "3"}}, "exit_code has another type"),
        ({"last": []}, "last has another type"),
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
    told = answer(record(), NOWHERE)
    assert list(told) == (
        "id name status image rootfs command created_at started_at finished_at exit_code signal "
        "oom_killed error pid pod restart_policy restart_count labels auto_remove stop_signal "
        "stop_timeout addresses ports spec"
    ).split(" ")
    assert corrupt_answer(ID, "why", NOWHERE).keys() == told.keys()
    assert (told["stop_timeout"], told["stop_signal"]) == (10, "SIGTERM")


RUN = Last(started_at="then")
EXITED = Last(started_at="then", finished_at="later", exit_code=0)


@pytest.mark.parametrize(
    ("look", "ever_started", "status", "error"),
    [
        (Look("running", "prepared"), False, "created", ""),
        (Look("running", "prepared"), True, "stopped", ""),  # in the pod that replaced its first
        (Look("running", "prepared", RUN), True, "restarting", ""),
        (Look("running", "running", RUN), True, "running", ""),
        (Look("running", "stopping", RUN), True, "running", ""),
        (Look("running", "running", RUN, paused=True), True, "paused", ""),
        (Look("running", "exited", EXITED), True, "stopped", ""),
        (Look("running", "deleting", EXITED), True, "removing", ""),
        (Look("running", ""), True, "unknown", ""),
        (Look("exited", "running", RUN), True, "stopped", "the end was not seen"),
        (Look("exited", "exited", EXITED), True, "stopped", ""),
        (Look("exited", "prepared"), False, "created", ""),
        (Look("gone"), True, "stopped", "its pod is gone"),
        (Look("gone"), False, "created", "its pod is gone"),
        (Look(problem="read state.json"), True, "unknown", "read state.json"),
        (Look("preparing"), False, "unknown", ""),
    ],
)
def test_status(look: Look, ever_started: bool, status: str, error: str) -> None:
    assert status_of(look, ever_started) == status
    assert error_of(look).startswith(error)
    assert bool(error_of(look)) == bool(error)


@pytest.mark.parametrize(
    ("look", "last_start", "end"),
    [
        (Look("running", "running", RUN), "then", ""),
        (Look("running", "prepared", RUN), "then", ""),
        (Look("running", "exited", EXITED), "then", "later"),
        (Look("exited", "exited", EXITED), "then", "later"),
        (Look("exited", "running", RUN), "then", "unseen then"),
        (Look("exited", "prepared"), None, ""),
        (Look("gone"), "then", "unseen then"),
        (Look("gone"), None, ""),
        (Look(problem="no"), "then", ""),
    ],
)
def test_ends(look: Look, last_start: str | None, end: str) -> None:
    assert end_of(look, last_start) == end


def test_a_store(tmp_path: Path) -> None:
    store = RecordStore(str(tmp_path))
    store.open()
    with pytest.raises(ManagerError, match="another ocid has"):
        RecordStore(str(tmp_path)).open()
    store.begin(ID)
    assert store.has(ID, "creating")
    store.save(record())
    assert store.load(ID) == record()
    (tmp_path / "containers" / ID / ".tmp-1").write_text("of one who was killed")
    store.forget(ID, "creating", "pod")
    assert store.ids() == [ID]
    assert [path.name for path in (tmp_path / "containers" / ID).iterdir()] == ["container.state"]
    store.note(ID, "replacing", {"pod": "uuid", "moving": True})
    assert store.noted(ID, "replacing") == {"pod": "uuid", "moving": True}
    assert store.noted(ID, "removing") == {}
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
    store.begin(other)
    (tmp_path / "containers" / other / "container.state").write_bytes(to_text(record()))
    with pytest.raises(ManagerError, match=f"it is the record of {ID}"):
        store.load(other)
    store.close()
