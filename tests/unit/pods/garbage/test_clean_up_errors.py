"""Resources of a pod that cannot be cleaned up: the message, and the state for the next attempt."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ociruntime.base import process
from ociruntime.base.errors import HostError, PodError
from ociruntime.pods.garbage import clean_up
from ociruntime.pods.store import phases, pod_cgroup, remove_tree
from ociruntime.pods.store.manifest_file import RUNTIME_CONFIG
from ociruntime.pods.store.pod import EXITED_GARBAGE, Pod

UUID = "6d52b7a4-0000-4000-8000-000000000001"


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pod]:
    """A new pod on a host without containers."""
    monkeypatch.setattr(clean_up, "STATE_ROOT", str(tmp_path / "state"))
    with phases.new_pod(str(tmp_path)) as one:
        (Path(one.path()) / "apps").mkdir()
        yield one


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["/bin/sleep", "600"]) as one:
        yield one
        one.kill()


def fail(*_: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_cgroup_with_processes_keeps_the_pod(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every attempt fails: the pod is never removed while its processes run."""
    monkeypatch.setattr(clean_up, "remove_cgroups", lambda _paths: ["/cgroup/of/pod"])
    for _ in range(2):
        with pytest.raises(PodError, match='remove the cgroup "/cgroup/of/pod": killed processes'):
            clean_up.clean_up(pod)
    assert not (Path(pod.path()) / clean_up.NOT_CLEAN).exists()


def test_a_failed_attempt_that_cannot_be_recorded(
    pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    (Path(pod.path()) / clean_up.NET_INFO).write_text("{}")
    monkeypatch.setattr(clean_up, "NOT_CLEAN", "none/not-clean")
    message = f'record the failed cleanup of pod {pod.uuid}: create "none/not-clean" in its dir'
    with pytest.raises(HostError, match=message):
        clean_up.clean_up(pod)


def test_a_damaged_runtime_config(
    pod: Pod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The containers are deleted with the runtime that their state directory names."""
    program = tmp_path / "bin" / "other"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho $5 >>{tmp_path}/deleted\n")
    program.chmod(0o755)
    monkeypatch.setattr(clean_up, "find_runtime", lambda name: f"{program.parent}/{name}")
    (Path(pod.path()) / RUNTIME_CONFIG).write_text("{")
    (tmp_path / "state" / "other" / f"{pod.uuid}-app").mkdir(parents=True)
    assert clean_up.clean_up(pod) == []
    assert (tmp_path / "deleted").read_text() == f"{pod.uuid}-app\n"


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("#!/bin/sh\necho 'it is  stuck' >&2\nexit 1\n", "it is stuck"),
        ("#!/bin/sh\nexit 3\n", "exit status 3"),
        ("#!/bin/sh\nexec sleep 600\n", '"{program} delete": timeout after 0.3 s'),
        ("#!/none\n", 'execute "{program}": no such file or directory'),
    ],
)
def test_a_runtime_that_does_not_delete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, expected: str
) -> None:
    """Its state of the container is removed nevertheless: cgroups show what runs."""
    program = tmp_path / "runtime"
    program.write_text(script)
    program.chmod(0o755)
    state = tmp_path / "state" / "runtime" / f"{UUID}-app"
    state.mkdir(parents=True)
    monkeypatch.setattr(clean_up, "STATE_ROOT", str(tmp_path / "state"))
    monkeypatch.setattr(clean_up, "_DELETE_SECONDS", 0.3)
    problem = expected.format(program=program)
    message = f'delete container "{UUID}-app": {problem}'
    assert clean_up.delete_containers(UUID, str(program)) == [message]
    assert not state.exists()


def test_a_runtime_that_was_uninstalled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = tmp_path / "state" / "no-such-runtime" / f"{UUID}-app"
    state.mkdir(parents=True)
    monkeypatch.setattr(clean_up, "STATE_ROOT", str(tmp_path / "state"))
    (problem,) = clean_up.delete_containers(UUID, "ociruntime")
    assert "no-such-runtime" in problem
    assert not state.exists()


def test_state_that_cannot_be_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "runtime"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (tmp_path / "state" / "runtime" / f"{UUID}-app").mkdir(parents=True)
    monkeypatch.setattr(clean_up, "STATE_ROOT", str(tmp_path / "state"))
    monkeypatch.setattr(clean_up, "remove_tree", fail)
    root = tmp_path / "state" / "runtime"
    (failure,) = clean_up.delete_containers(UUID, str(program))
    assert f'"{root}": input/output error' in failure


def test_unreadable_state_counts_as_a_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "state").write_text("not a directory")
    monkeypatch.setattr(clean_up, "STATE_ROOT", str(tmp_path / "state"))
    assert clean_up._has_containers(UUID)


def test_mounts_and_cgroups_that_cannot_be_listed(
    pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clean_up, "own_mountinfo", fail)
    with pytest.raises(HostError, match='read "/proc/self/mountinfo": input/output error'):
        clean_up.mountinfo()
    monkeypatch.setattr(pod_cgroup, "hierarchies", fail)
    with pytest.raises(HostError, match='read "/proc/self/mountinfo": input/output error'):
        clean_up.clean_up(pod)


def test_a_directory_that_cannot_be_listed(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the pod's directory, not a descriptor of ocipod."""
    phases.to_run(pod)
    assert pod.move(EXITED_GARBAGE)
    with monkeypatch.context() as patch:
        patch.setattr(clean_up, "sync_directory", fail)
        with pytest.raises(PodError, match=f'remove "{pod.path()}": input/output error'):
            clean_up.remove(pod)
    with pytest.raises(PodError, match=f'remove "{pod.path()}": no such file or directory'):
        clean_up.remove(pod)

    def refuse(path: str) -> list[str]:
        raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    monkeypatch.setattr(os, "listdir", refuse)
    with pytest.raises(PodError, match=f'remove "{pod.path()}": input/output error'):
        clean_up.remove(pod)


def test_forget_run_keeps_the_exit_record_until_the_end(
    pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it, the next run would not know that cleanup has to be repeated."""
    place = Path(pod.path())
    (place / "exit").write_text('{"clean": true}')
    (place / "apps" / "one").mkdir()
    for name in ("ready", "ctl", "monitor.json", "not-clean", "apps/one/state.json"):
        (place / name).touch()
    original = remove_tree.remove_tree

    def fail_at_monitor(parent: int, name: str) -> None:
        if name == "monitor.json":
            fail()
        original(parent, name)

    with monkeypatch.context() as patch:
        patch.setattr(clean_up, "remove_tree", fail_at_monitor)
        message = f"pod {pod.uuid}: input/output error"
        with pytest.raises(HostError, match=message):
            clean_up.forget_run(pod)
    assert (place / "exit").exists()
    assert clean_up.forget_run(pod) == []
    left = {str(path.relative_to(place)) for path in place.rglob("*")}
    assert left == {"apps", "apps/one", "pod.lck", "pod-created"}


def test_processes_of_a_frozen_cgroup(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    """A frozen process dies only once it is thawed; on cgroup v2, the kernel kills all at once."""
    group = tmp_path / "ocipod-uuid"
    group.mkdir()
    (group / "cgroup.procs").write_text(f"{sleeper.pid}\n")
    (group / "freezer.state").write_text("FROZEN")
    (group / "cgroup.kill").touch()
    clean_up._kill([str(group)], [str(group)])
    assert sleeper.wait(10) == -9
    assert (group / "freezer.state").read_text() == "THAWED"
    assert (group / "cgroup.kill").read_text() == "1"


def test_a_process_that_leaves_the_cgroup_is_not_killed(
    tmp_path: Path, sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pid may now be that of an unrelated process."""
    group = tmp_path / "ocipod-uuid"
    group.mkdir()
    (group / "cgroup.procs").write_text(f"{sleeper.pid}\n")

    def open_late(pid: int, started: int) -> int:
        fd = process.open_process(pid, started)
        assert fd >= 0
        (group / "cgroup.procs").write_text("")
        return fd

    monkeypatch.setattr(clean_up, "open_process", open_late)
    clean_up._kill([], [str(group)])
    assert sleeper.poll() is None


def test_a_process_that_has_just_exited(tmp_path: Path) -> None:
    group = tmp_path / "ocipod-uuid"
    group.mkdir()
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    (group / "cgroup.procs").write_text(f"{ended.pid}\n")
    before = os.listdir("/proc/self/fd")
    clean_up._kill([str(group)], [str(group)])
    assert os.listdir("/proc/self/fd") == before


def test_a_file_of_a_cgroup_that_refuses(tmp_path: Path) -> None:
    """An error, such as ENOENT of a removed cgroup, does not end the cleanup."""
    before = os.listdir("/proc/self/fd")
    clean_up._write(str(tmp_path / "none"), b"1")
    clean_up._write("/dev/full", b"1")
    assert os.listdir("/proc/self/fd") == before
