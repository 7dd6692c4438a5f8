"""The mounts of a pod, and the order in which its resources are removed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ociruntime.base.errors import HostError, PodError
from ociruntime.pods.garbage import clean_up
from ociruntime.pods.store import phases, remove_tree
from ociruntime.pods.store.pod import EXITED_GARBAGE

MOUNTINFO = r"""22 1 0:20 / / rw - ext4 /dev/a rw
30 22 0:21 / /pods/run/u rw shared:1 - tmpfs tmpfs rw
31 30 0:22 / /pods/run/u/apps/a/bundle/rootfs rw - overlay overlay rw
32 31 0:23 / /pods/run/u/apps/a/bundle/rootfs/with\040blank rw - tmpfs tmpfs rw
33 22 0:24 / /pods/run/uu rw - tmpfs tmpfs rw
34 22 0:25 / /elsewhere/pods/run/u/x rw - tmpfs tmpfs rw
"""


def test_mounts_below() -> None:
    assert clean_up.mounts_below("/pods/run/u", MOUNTINFO) == [
        "/pods/run/u/apps/a/bundle/rootfs/with blank",
        "/pods/run/u/apps/a/bundle/rootfs",
        "/pods/run/u",
    ]


def test_the_manifest_is_removed_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    original = remove_tree.remove_tree

    def note(parent: int, name: str) -> None:
        order.append(name)
        original(parent, name)

    monkeypatch.setattr(clean_up, "remove_tree", note)
    with phases.new_pod(str(tmp_path)) as pod:
        place = Path(pod.path())
        for name in ("apps", "volumes", "logs"):
            (place / name).mkdir()
        for name in ("pod", "runtime-config", "net-info.json", "exit"):
            (place / name).touch()
        phases.to_run(pod)
        assert pod.move(EXITED_GARBAGE)
        clean_up.remove(pod)
    assert (order[0], order[-1]) == ("apps", "pod")
    assert phases.names(str(tmp_path), ["run", EXITED_GARBAGE], []) == []


def test_an_attempt_that_fails_leaves_a_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(parent: int, name: str) -> None:
        raise OSError(16, os.strerror(16), name.encode())

    with phases.new_pod(str(tmp_path)) as pod:
        (Path(pod.path()) / "pod").touch()
        phases.to_run(pod)
        assert pod.move(EXITED_GARBAGE)
        with monkeypatch.context() as patch:
            patch.setattr(clean_up, "remove_tree", refuse)
            with pytest.raises(PodError, match=r'remove "pod-created": device or resource busy'):
                clean_up.remove(pod)
        assert (Path(pod.path()) / "pod").exists()
        clean_up.remove(pod)
        assert not Path(pod.path()).exists()


def test_an_app_named_like_another_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its container and state stay when that other pod is removed."""
    uuid, other = "6d52b7a4-0000-4000-8000-000000000001", "0aa3c1de-0000-4000-8000-000000000002"
    program = tmp_path / "runtime"
    program.write_text(f"#!/bin/sh\necho $5 >>{tmp_path}/deleted\n")
    program.chmod(0o755)
    root = tmp_path / "state" / "runtime"
    stale = (f"{uuid}-a", f".creating-{uuid}-b", f".deleting-{uuid}-c")
    kept = (f"{other}-{uuid}", f".creating-{other}-{uuid}-x", f"{other}-a", uuid)
    for name in (*stale, *kept):
        (root / name).mkdir(parents=True)
    monkeypatch.setattr(clean_up, "STATE_ROOT", str(tmp_path / "state"))
    assert clean_up.delete_containers(uuid, str(program)) == []
    assert sorted(os.listdir(root)) == sorted(kept)
    deleted = (tmp_path / "deleted").read_text().split()
    assert sorted(deleted) == [f"{uuid}-a", f"{uuid}-b", f"{uuid}-c"]


def test_unreadable_state_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was treated as "nothing has run", and the containers stayed forever."""
    (tmp_path / "state").write_text("not a directory")
    monkeypatch.setattr(clean_up, "STATE_ROOT", str(tmp_path / "state"))
    with pytest.raises(HostError, match="not a directory"):
        clean_up.delete_containers("6d52b7a4-0000-4000-8000-000000000001", "ociruntime")


def test_networks_that_cannot_be_left_keep_the_pod_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A temporary failure leaves no address; a permanent one does not keep the pod."""
    monkeypatch.setattr(clean_up, "STATE_ROOT", str(tmp_path / "state"))
    with phases.new_pod(str(tmp_path)) as pod:
        (Path(pod.path()) / "net-info.json").write_text("{}")
        with pytest.raises(PodError, match=r"networks: .*try again"):
            clean_up.clean_up(pod)
        assert ["from its networks" in line for line in clean_up.clean_up(pod)] == [True]
        clean_up.remove(pod)
    assert phases.names(str(tmp_path), ["prepare"], []) == []


def test_containers_that_cannot_be_deleted_keep_the_pod_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, kind: str) -> None:
        raise HostError(f'use the {kind} "{path}"', OSError(5, os.strerror(5)))

    monkeypatch.setattr(clean_up, "STATE_ROOT", str(tmp_path / "state"))
    monkeypatch.setattr(clean_up, "check_directory", refuse)
    with phases.new_pod(str(tmp_path)) as pod:
        (tmp_path / "state" / "runtime" / f"{pod.uuid}-a").mkdir(parents=True)
        with pytest.raises(PodError, match="input/output error"):
            clean_up.clean_up(pod)
        assert len(clean_up.clean_up(pod)) == 1
        clean_up.remove(pod)
