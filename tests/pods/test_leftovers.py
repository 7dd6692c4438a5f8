"""Stale state of a pod whose monitor was killed, and its cleanup by gc."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from ociruntime.base.errors import PodError
from ociruntime.pods.garbage import clean_up, garbage_collection
from ociruntime.pods.store import phases
from tests.pods import stubs
from tests.support import cgroupfs, isolation, leaks, processes
from tests.support.ocipod import RUNTIME, STATE_ROOT, Ocipod, states
from tests.support.plugin import MakeBundle

NOW = ("gc", "--grace-period=0s")


def mounts_at(path: Path) -> list[str]:
    return [one for one in leaks.mount_table().values() if one.startswith(str(path))]


def test_mounts(ocipod: Ocipod, work: Path) -> None:
    uuid = stubs.exited(ocipod)
    precious = work / "precious"
    precious.mkdir()
    (precious / "file").write_text("kept")
    rootfs = ocipod.path(uuid) / "apps" / "stub" / "rootfs"
    isolation.mount("none", str(rootfs), "tmpfs")
    (rootfs / "inside here").mkdir()
    isolation.mount(str(precious), str(rootfs / "inside here"), "", flags=4096)
    isolation.mount("none", str(ocipod.path(uuid) / "apps"), "tmpfs")
    done = ocipod(*NOW).ok()
    assert "ocipod:" not in done.err
    assert mounts_at(ocipod.directory) == []
    assert ocipod.pods() == []
    assert (precious / "file").read_text() == "kept"


def test_what_it_cannot_unmount_it_does_not_empty(
    ocipod: Ocipod, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uuid = stubs.exited(ocipod)
    precious = work / "precious"
    precious.mkdir()
    (precious / "file").touch()
    rootfs = ocipod.path(uuid) / "apps" / "stub" / "rootfs"
    isolation.mount(str(precious), str(rootfs), "", flags=4096)
    real = clean_up.mounts_below
    # The first look sees nothing to unmount; the second one is the check.
    looks = iter([lambda *_: [], real])

    def look(path: str, mountinfo: str) -> list[str]:
        return next(looks)(path, mountinfo)

    monkeypatch.setattr(clean_up, "mounts_below", look)
    with (
        phases.open_pod(str(ocipod.directory), uuid) as pod,
        pytest.raises(PodError, match="still mounted"),
    ):
        list(garbage_collection.discard(pod))
    assert (precious / "file").exists()
    assert ocipod.state(uuid) == "exited garbage"
    ocipod("rm", uuid).ok()
    assert (precious / "file").exists()


def test_processes_in_its_cgroups(ocipod: Ocipod) -> None:
    uuid = stubs.exited(ocipod)
    places = [top / f"ocipod-{uuid}" / "stub" for top in set(cgroupfs.hierarchies().values())]
    made = [place for place in places if _make(place)]
    left = subprocess.Popen(
        ["sh", "-c", "read go; sleep 100 & sleep 100"],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    ocipod.started.append(left)
    for place in made:
        (place / "cgroup.procs").write_text(str(left.pid))
    assert left.stdin is not None
    left.stdin.write(b"go\n")
    left.stdin.flush()
    everywhere = [place / "cgroup.procs" for place in made]
    assert processes.until(lambda: all(len(p.read_text().split()) == 3 for p in everywhere))
    done = ocipod(*NOW).ok()
    assert "ocipod:" not in done.err
    assert not any(place.parent.exists() for place in places)
    assert left.wait(10) == -9
    assert ocipod.pods() == []


def _make(place: Path) -> bool:
    """Create a cgroup; return False if it accepts no process before it is configured (cpuset)."""
    place.mkdir(parents=True)
    return not (place / "cpuset.cpus").exists()


def test_processes_that_do_not_end(
    ocipod: Ocipod, monkeypatch: pytest.MonkeyPatch, work: Path
) -> None:
    place = work / "cgroup"
    (place / "app").mkdir(parents=True)
    (place / "app" / "busy").touch()
    monkeypatch.setattr(clean_up, "_TIMEOUT", 0.05)
    left = clean_up.remove_cgroups([str(place)])
    assert set(left) == {str(place), str(place / "app")}


def test_containers_of_the_runtime(ocipod: Ocipod, bundle: MakeBundle) -> None:
    uuid, process = stubs.running(ocipod)
    root = STATE_ROOT / RUNTIME.name
    made = bundle("sleep", "100")
    made.linux["cgroupsPath"] = f"/ocipod-{uuid}/stub"
    made.save()
    words = ["--root", str(root), "run", "--detach", "--bundle", str(made.path), f"{uuid}-stub"]
    subprocess.run([str(RUNTIME), *words], check=True, stdin=subprocess.DEVNULL, timeout=30)
    state = json.loads((root / f"{uuid}-stub" / "state.json").read_text())
    pid = state["pid"] if "pid" in state else state["init_process_pid"]
    assert processes.alive(pid)
    config = {"runtime": str(RUNTIME)}
    (ocipod.path(uuid) / "runtime-config").write_text(json.dumps(config))
    stubs.finish(ocipod, process).ok()
    done = ocipod(*NOW).ok()
    assert "ocipod:" not in done.err
    assert states(uuid) == []
    assert processes.until(lambda: not processes.alive(pid))
    assert ocipod.pods() == []


def test_a_runtime_that_is_not_there_any_more(ocipod: Ocipod) -> None:
    uuid = stubs.exited(ocipod)
    root = STATE_ROOT / "gone-runtime"
    config = {"runtime": "/nonexistent/gone-runtime"}
    (ocipod.path(uuid) / "runtime-config").write_text(json.dumps(config))
    other = "00000000-0000-4000-8000-000000000000"
    for one in (uuid, other):
        (root / f"{one}-stub" / "rest").mkdir(parents=True)
    try:
        done = ocipod("rm", uuid).ok()
        assert "delete container" in done.err
        assert states(uuid) == []
        assert [one.name for one in states(other)] == [f"{other}-stub"]
        assert ocipod.pods() == []
    finally:
        shutil.rmtree(root)


def test_a_create_that_was_killed(ocipod: Ocipod) -> None:
    """It is cleaned up by the runtime that its state directory names."""
    uuid = stubs.exited(ocipod)
    (STATE_ROOT / "ociruntime" / f".creating-{uuid}-stub").mkdir(parents=True)
    (ocipod.path(uuid) / "runtime-config").write_text("{")
    done = ocipod(*NOW).ok()
    assert "container" not in done.err
    assert states(uuid) == []


def test_damaged_files_do_not_keep_it(ocipod: Ocipod) -> None:
    uuid = stubs.exited(ocipod)
    for name in ("pod", "runtime-config", "net-info.json"):
        (ocipod.path(uuid) / name).write_text("{")
    done = ocipod(*NOW)
    assert f"net-info.json of pod {uuid}" in done.err
    assert ocipod.pods() == [uuid]  # kept for one more attempt: the file names its networks
    ocipod(*NOW).ok()
    assert ocipod.pods() == []
