"""Pods move forward through their phases; of several concurrent attempts, one succeeds."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ociruntime.base.errors import HostError, NoSuchPod, PodError
from ociruntime.pods.store import phases
from ociruntime.pods.store.phases import Pod


@pytest.fixture
def directory(tmp_path: Path) -> str:
    return str(tmp_path)


@pytest.fixture
def pod(directory: str) -> Iterator[Pod]:
    one = phases.new_pod(directory)
    yield one
    one.close()


def state_of(directory: str, uuid: str) -> str:
    found = phases.find(directory, uuid)
    if found is None:
        return "gone"
    with found:
        return found.state


def test_a_new_pod_is_being_prepared(directory: str, pod: Pod) -> None:
    assert (pod.phase, pod.state, pod.lock) == ("prepare", "preparing", pod.fd)
    assert phases.is_uuid(pod.uuid)
    assert state_of(directory, pod.uuid) == "preparing"
    place = Path(pod.path())
    assert place.stat().st_mode & 0o7777 == 0o750
    assert sorted(os.listdir(place)) == ["pod-created", "pod.lck"]


def test_it_is_aborted_when_its_maker_is_gone(directory: str, pod: Pod) -> None:
    pod.close()
    assert state_of(directory, pod.uuid) == "aborted prepare"


def test_prepared_then_run_then_exited(directory: str, pod: Pod) -> None:
    phases.to_prepared(pod)
    assert (pod.lock, pod.state, pod.phase) == (-1, "prepared", "prepared")
    assert state_of(directory, pod.uuid) == "prepared"
    with phases.open_pod(directory, pod.uuid[:9]) as other:
        phases.to_run(other)
        assert other.state == "running"
        assert state_of(directory, pod.uuid) == "running"
        assert pod.refresh() == "running"
        assert not phases.mark_exited(pod)
    assert pod.refresh() == "exited"
    assert phases.mark_exited(pod)
    assert state_of(directory, pod.uuid) == "exited garbage"


def test_run_without_waiting(directory: str, pod: Pod) -> None:
    phases.to_run(pod)
    assert state_of(directory, pod.uuid) == "running"


def test_who_comes_second_is_told_the_state(directory: str, pod: Pod) -> None:
    phases.to_prepared(pod)
    with phases.open_pod(directory, pod.uuid) as second:
        assert second.state == "prepared"
        phases.to_run(pod)
        with pytest.raises(PodError, match='state is "running"'):
            phases.to_run(second)
        pod.close()
        with pytest.raises(PodError, match='state is "exited"'):
            phases.to_run(second)
        assert second.refresh() == "exited"


def test_an_observer_of_a_prepared_pod_locks_nothing(directory: str, pod: Pod) -> None:
    phases.to_prepared(pod)
    fd = os.open(pod.path(), os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    assert state_of(directory, pod.uuid) == "prepared"
    with pytest.raises(PodError, match="another process"):
        phases.to_run(pod)
    os.close(fd)
    phases.to_run(pod)


def test_a_rename_replaces_nothing(directory: str, pod: Pod) -> None:
    obstacle = Path(directory, "pods", "prepared", pod.uuid)
    obstacle.mkdir(parents=True)
    with pytest.raises(PodError, match="exists there"):
        phases.to_prepared(pod)
    assert Path(directory, "pods", "prepare", pod.uuid, "pod.lck").exists()


@pytest.mark.parametrize("text", ["", "x", "/", "..", "g" * 36, "0" * 37, "*"])
def test_what_cannot_be_a_uuid(directory: str, text: str) -> None:
    with pytest.raises(NoSuchPod, match="UUID nor"):
        phases.open_pod(directory, text)


@pytest.mark.parametrize("way", [phases.to_prepared, phases.to_run])
def test_a_pod_that_somebody_removes(directory: str, pod: Pod, way: Callable[[Pod], None]) -> None:
    shutil.rmtree(pod.path())
    with pytest.raises(PodError, match=f"pod {pod.uuid} to .*another process .* removed"):
        way(pod)


def test_a_disk_that_cannot_be_written_to(pod: Pod) -> None:
    # A descriptor that says where the file system is, and nothing that could be written back.
    fd = os.open(pod.path(), os.O_PATH | os.O_DIRECTORY)
    os.dup2(fd, pod.fd, inheritable=False)
    os.close(fd)
    with pytest.raises(HostError, match=f"pod {pod.uuid}: bad file descriptor"):
        phases.to_prepared(pod)


def test_places_that_cannot_be_looked_at(directory: str, pod: Pod) -> None:
    Path(directory, "pods", "prepared").symlink_to("prepared")
    reason = "too many levels of symbolic links"
    with pytest.raises(HostError, match=f"open pod {pod.uuid}: {reason}"):
        phases.open_in(directory, "prepared", pod.uuid)
    shutil.rmtree(pod.path())
    with pytest.raises(HostError, match=f"find pod {pod.uuid}: {reason}"):
        pod.refresh()


def test_no_place_for_a_new_pod(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    embryos = Path(directory, "pods", "embryo")

    def occupy(point: str) -> None:
        (embryos / os.listdir(embryos)[0] / "pod.lck").mkdir()

    monkeypatch.setattr(phases, "fault", occupy)
    with pytest.raises(HostError, match=r"lock file of .*: is a directory"):
        phases.new_pod(directory)
    embryos.rmdir()
    embryos.touch()
    with pytest.raises(HostError, match=f'"{embryos}/.*": not a directory'):
        phases.new_pod(directory)


def test_beginnings(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    uuids = [f"aaaaaaaa-0000-4000-8000-00000000000{n}" for n in range(3)]
    given = iter(uuids)
    monkeypatch.setattr(phases, "new_uuid", lambda: next(given))
    for _ in uuids:
        phases.new_pod(directory).close()
    with pytest.raises(NoSuchPod, match='UUID prefix "aaaa" is ambiguous: 3 pods'):
        phases.open_pod(directory, "aaaa")
    with pytest.raises(NoSuchPod, match='UUID prefix "ab"'):
        phases.open_pod(directory, "ab")
    with pytest.raises(NoSuchPod, match="not found"):
        phases.open_pod(directory, uuids[0][:-1] + "9")
    with phases.open_pod(directory, uuids[1].upper()) as found:
        assert found.uuid == uuids[1]


def test_an_embryo_that_was_collected(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def collect(point: str) -> None:
        place = Path(directory, "pods", "embryo")
        Path(directory, "pods", "garbage").mkdir(exist_ok=True)
        for one in place.iterdir():
            one.rename(Path(directory, "pods", "garbage", one.name))

    monkeypatch.setattr(phases, "fault", collect)
    with pytest.raises(PodError, match="gc removed"):
        phases.new_pod(directory)
    assert phases.names(directory, ["embryo", "prepare"], []) == []


def test_listing(directory: str) -> None:
    made = [phases.new_pod(directory) for _ in range(3)]
    phases.to_run(made[0])
    made[1].close()
    stray = Path(directory, "pods", "run")
    (stray / "notes").touch()
    (stray / "aaaaaaaa-0000-4000-8000-000000000000").touch()
    pods, problems = phases.list_pods(directory)
    assert [pod.uuid for pod in pods] == sorted(pod.uuid for pod in made)
    notes, file = problems
    assert "/notes" in notes
    assert "UUID" in notes
    assert "/aaaaaaaa-0000-4000-8000-000000000000" in file
    assert "not a directory" in file
    running, _ = phases.list_pods(directory, {"running"})
    assert [pod.uuid for pod in running] == [made[0].uuid]
    for pod in [*pods, *running, *made]:
        pod.close()


def test_an_inherited_lock(directory: str, pod: Pod) -> None:
    phases.to_run(pod)
    copy = os.dup(pod.fd)
    os.set_inheritable(copy, True)
    with phases.adopt(directory, pod.uuid, copy) as adopted:
        pod.close()
        assert state_of(directory, adopted.uuid) == "running"
        assert adopted.refresh() == "running"
        assert not os.get_inheritable(copy)
    assert state_of(directory, adopted.uuid) == "exited"


def test_a_phase_that_is_no_directory(directory: str, pod: Pod) -> None:
    place = Path(directory, "pods", "prepared")
    place.symlink_to("prepared")
    reason = "too many levels of symbolic links"
    with pytest.raises(HostError, match=f'list the directory "{place}": {reason}'):
        phases.names(directory, ["prepared"], [])
    with pytest.raises(HostError, match=f"{pod.uuid} .*: {reason}"):
        phases.to_prepared(pod)
    assert pod.refresh() == "preparing"
