"""Files of a pod: replaced whole, damaged ones told, nothing written where it may not be."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ociruntime.errors import PodError
from ociruntime.pod import manifest_file, phases, references
from ociruntime.pod.mutation import manifest_lock
from ociruntime.pod.phases import Pod


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Pod]:
    with phases.new_pod(str(tmp_path)) as one:
        yield one


def test_the_manifest(pod: Pod) -> None:
    with pytest.raises(PodError, match="has no manifest"):
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
    with pytest.raises(PodError, match=f"pod of pod {pod.uuid} is not"):
        manifest_file.read_manifest(pod)


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
    with pytest.raises(PodError, match="is exited garbage: it cannot be changed"):
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
        assert references.used_images(directory) == {"sha256:1", "sha256:2"}
        assert references.used_trees(directory) == {"t1", "t2"}
        Path(other.path(), "apps", "b", "image.json").write_text("{")
        with pytest.raises(PodError, match="which images are in use cannot be said"):
            references.used_images(directory)


def test_references_without_pods(tmp_path: Path) -> None:
    assert references.used_trees(str(tmp_path)) == set()
