"""Files of a pod: replaced atomically, damage reported, writes refused where not allowed."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ociruntime.base.errors import HostError, PodError
from ociruntime.pods.bundle import pod_context, write_bundle
from ociruntime.pods.bundle.app_config import AppFacts
from ociruntime.pods.operations import stop_pod
from ociruntime.pods.operations.sandbox import remove_files
from ociruntime.pods.store import control_client, manifest_file, phases, used_images
from ociruntime.pods.store.log_reader import LogReader
from ociruntime.pods.store.manifest_file import manifest_lock
from ociruntime.pods.store.phases import Pod


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Pod]:
    with phases.new_pod(str(tmp_path)) as one:
        yield one


def test_the_manifest(pod: Pod) -> None:
    with pytest.raises(PodError, match=r"manifest of pod .*: not found"):
        manifest_file.read_manifest(pod)
    manifest_file.write_manifest(pod, {"apps": [], "name": "ä"})
    manifest_file.write_runtime_config(pod, {"net": ["default"]})
    assert manifest_file.read_manifest(pod) == {"apps": [], "name": "ä"}
    assert manifest_file.read_runtime_config(pod) == {"net": ["default"]}
    modes = {
        name: os.stat(f"{pod.path()}/{name}").st_mode & 0o777 for name in os.listdir(pod.path())
    }
    assert modes == {"pod": 0o640, "pod-created": 0o600, "pod.lck": 0o600, "runtime-config": 0o600}


def test_it_is_read_wherever_the_pod_went(pod: Pod) -> None:
    manifest_file.write_manifest(pod, {"apps": []})
    with phases.open_pod(pod.directory, pod.uuid) as other:
        phases.to_run(pod)
        assert manifest_file.read_manifest(other) == {"apps": []}


@pytest.mark.parametrize("text", ["", "{", "[]", "1", '{"a": 1} x', "\udcff"])
def test_damage(pod: Pod, text: str) -> None:
    Path(pod.path(), "pod").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(PodError, match=f"pod {pod.uuid}: (invalid JSON|must be)"):
        manifest_file.read_manifest(pod)


def test_what_a_power_failure_leaves_is_as_if_it_were_not_there(pod: Pod) -> None:
    Path(pod.path(), "monitor.json").touch()
    assert manifest_file.read_object(pod, "monitor.json") is None


def test_one_change_at_a_time(pod: Pod) -> None:
    manifest_file.write_manifest(pod, {"count": 0})
    phases.to_run(pod)

    def change() -> None:
        with phases.open_pod(pod.directory, pod.uuid) as own:
            for _ in range(20):
                with manifest_lock(own):
                    count = manifest_file.read_manifest(own)["count"]
                    manifest_file.write_manifest(own, {"count": count + 1})

    # The temporary file's name has the pid: threads need the lock for that as well.
    threads = [threading.Thread(target=change) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert manifest_file.read_manifest(pod)["count"] == 80


def test_a_marked_pod_is_not_changed(pod: Pod) -> None:
    phases.to_run(pod)
    pod.release()
    assert phases.mark_exited(pod)
    changed = os.stat(pod.path()).st_ctime_ns
    with pytest.raises(PodError, match=r'change pod .* "exited garbage"'):
        manifest_lock(pod).__enter__()
    assert os.stat(pod.path()).st_ctime_ns == changed


def add_app(pod: Pod, name: str, text: str) -> None:
    place = Path(pod.path(), "apps", name)
    place.mkdir(parents=True)
    (place / "image.json").write_text(text)


def test_references(tmp_path: Path, pod: Pod) -> None:
    directory = str(tmp_path)
    add_app(pod, "a", '{"id": "sha256:1", "tree": "t1"}')
    Path(pod.path(), "apps", "half-made").mkdir()
    phases.to_run(pod)
    pod.release()
    phases.mark_exited(pod)
    with phases.new_pod(directory) as other:
        add_app(other, "a", '{"id": "sha256:2", "tree": "t2"}')
        add_app(other, "b", '{"id": "sha256:1", "tree": "t1"}')
        assert used_images.used_images(directory) == {"sha256:1", "sha256:2"}
        assert used_images.used_trees(directory) == {"t1", "t2"}
        Path(other.path(), "apps", "b", "image.json").write_text("{")
        with pytest.raises(PodError, match="images pods use"):
            used_images.used_images(directory)


def test_references_without_pods(tmp_path: Path) -> None:
    assert used_images.used_trees(str(tmp_path)) == set()


def test_a_pod_whose_apps_cannot_be_listed(tmp_path: Path, pod: Pod) -> None:
    Path(pod.path(), "apps").touch()
    with pytest.raises(PodError, match=f"pod {pod.uuid}: not a directory"):
        used_images.used_trees(str(tmp_path))


def test_a_log_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "a.log").mkdir()
    reader = LogReader(str(tmp_path), "a")
    with pytest.raises(HostError, match=f'read the log "{tmp_path}/a.log": is a directory'):
        list(reader.read())
    reader.close()


def test_a_monitor_without_a_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HostError, match=r"pod's manifest .*/pod.: no such file"):
        pod_context.read_manifest()


def test_a_pod_that_is_half_there(pod: Pod) -> None:
    with pytest.raises(PodError, match=f"read runtime-config of pod {pod.uuid}: not found"):
        manifest_file.read_runtime_config(pod)
    Path(pod.path(), "pod").mkdir()
    with pytest.raises(HostError, match=f"read pod of pod {pod.uuid}: is a directory"):
        manifest_file.read_manifest(pod)
    with pytest.raises(HostError, match=f'remove app "a" of pod {pod.uuid}: no such file'):
        remove_files(pod, "a")


def test_a_pod_without_the_file_that_is_locked(pod: Pod) -> None:
    Path(pod.path(), "pod.lck").unlink()
    with pytest.raises(PodError, match=f'change pod {pod.uuid}: .*"preparing"'):
        manifest_lock(pod).__enter__()
    Path(pod.path(), "pod.lck").symlink_to("pod.lck")
    with pytest.raises(HostError, match=f"open pod.lck of pod {pod.uuid}: too many levels"):
        manifest_lock(pod).__enter__()


def test_a_monitor_that_another_program_plays(pod: Pod) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.bind(f"/proc/self/fd/{pod.fd}/ctl")
        other.listen()
        with pytest.raises(HostError, match=f"pod {pod.uuid}: protocol"):
            control_client.connect(pod)


@pytest.mark.parametrize("record", ['{"pid": 1}', '{"pid": "x", "start_time": 1}'])
def test_a_monitor_that_cannot_be_found_to_be_killed(pod: Pod, record: str) -> None:
    Path(pod.path(), "monitor.json").write_text(record)
    with pytest.raises(PodError, match=f"monitor of pod {pod.uuid}: monitor.json is damaged"):
        stop_pod._kill(pod)


def test_waiting_for_the_end_of_one_run_only(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pod may be run again before the command checks it again."""
    monitor = Path(pod.path(), "monitor.json")
    monitor.write_text('{"pid": 1, "start_time": 2}')
    phases.to_run(pod)
    monitor = Path(pod.path(), "monitor.json")
    asked = threading.Event()
    monkeypatch.setattr(stop_pod, "ask", lambda *_: asked.set())
    with phases.open_pod(pod.directory, pod.uuid) as other:
        stopped: list[bool] = []
        thread = threading.Thread(
            target=lambda: stopped.append(stop_pod.stop_pod(other, 0, force=True, wait=True))
        )
        thread.start()
        assert asked.wait(30)
        thread.join(0.2)
        assert thread.is_alive(), "it has not ended yet"
        monitor.write_text('{"pid": 1, "start_time": 3}')
        thread.join(30)
        assert stopped == [True]


def test_a_volume_that_is_gone(tmp_path: Path) -> None:
    facts = AppFacts("uuid", "/rootfs")
    volumes = [{"name": "v", "kind": "host", "source": f"{tmp_path}/gone"}]
    with pytest.raises(HostError, match=f'mount volume "v": open "{tmp_path}/gone": no such file'):
        write_bundle._find_volumes(facts, str(tmp_path), {"volumes": volumes})
