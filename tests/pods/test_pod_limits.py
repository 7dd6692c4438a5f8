"""Limits of a whole pod, shared by its apps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import cgroupfs, processes
from tests.support.ocipod import Ocipod
from tests.support.pod_images import busybox, shell

# Each holds 24 MiB until it is killed.
HOLD = "mkfifo /f; sleep 60 < /f & exec dd if=/dev/zero of=/f bs=24M count=1"
# Nine processes each, when both have begun.
FORK = (
    ": > /dev/shm/$AC_APP_NAME; until [ -e /dev/shm/a -a -e /dev/shm/b ]; do sleep 0.05; done; "
    "for i in 1 2 3 4 5 6 7 8; do sleep 60 & done; wait"
)


@pytest.mark.parametrize(
    ("limit", "script", "status", "said"),
    [("--memory=40M", HOLD, 137, ""), ("--pids=14", FORK, 2, "can't fork")],
    ids=["memory", "processes"],
)
def test_two_apps_together(
    ocipod: Ocipod, work: Path, limit: str, script: str, status: int, said: str
) -> None:
    """Each alone stays below the limit, both exceed it; the failing app ends the pod."""
    image = busybox(work)
    alone = ("--name=a", *shell(script))
    words = ("run", "--net=none", limit, image, *alone, "---", image, "--name=b", *shell(script))
    done = ocipod(*words)
    assert done.status == status, done
    assert said in done.err
    (uuid,) = ocipod.pods()
    files = [ocipod.path(uuid) / "apps" / name / "state.json" for name in "ab"]
    ends = [json.loads(file.read_text()) for file in files]
    # The kernel may take both, when the first one's memory is slow to come back.
    failed = [end for end in ends if end["stopped_by"] is None]
    assert failed
    assert all(end["oom_killed"] == (status == 137) for end in failed)


def group_files(uuid: str, app: str = "") -> dict[str, str]:
    """Return the limits in the control files of the pod or an app, by their v2 names."""
    names = {
        "memory.limit_in_bytes": "memory.max",
        "cpu.cfs_quota_us": "cpu.max",
        **{name: name for name in ("memory.max", "cpu.max", "pids.max")},
    }
    found = {}
    for top in set(cgroupfs.hierarchies().values()):
        for file, name in names.items():
            path = top / f"ocipod-{uuid}" / app / file
            if path.exists():
                found[name] = path.read_text().split()[0]
    return found


def test_an_app_has_no_more_than_the_pod(ocipod: Ocipod, work: Path) -> None:
    limits = ("--memory=64M", "--cpu=500m", "--cpu-shares=512", "--pids=50")
    words = ("run", "--detach", "--net=none", *limits, busybox(work), "--cpu=2", "--pids=9")
    uuid = ocipod(*words, *shell("sleep 60")).ok().out.strip()
    whole = {"memory.max": str(64 << 20), "cpu.max": "50000", "pids.max": "50"}
    assert group_files(uuid) == whole
    app = group_files(uuid, "busybox")
    assert (app["cpu.max"], app["pids.max"]) == ("50000", "9")
    ocipod("stop", "--force", uuid).ok()


def test_a_pod_whose_apps_come_and_go(ocipod: Ocipod, work: Path) -> None:
    """Its limits stay while it has no app."""
    image = busybox(work)
    ocipod("fetch", image).ok()
    uuid = ocipod("app", "sandbox", "--detach", "--net=none", "--pids=50").ok().out.strip()
    assert group_files(uuid)["pids.max"] == "50"
    for _ in range(2):
        ocipod("app", "add", uuid, image, "--name=a", *shell("sleep 60")).ok()
        ocipod("app", "start", "--app=a", uuid).ok()
        assert group_files(uuid)["pids.max"] == "50"
        ocipod("app", "rm", "--app=a", uuid).ok()
        assert group_files(uuid)["pids.max"] == "50"
    ocipod("stop", uuid).ok()
    ocipod.wait_for(uuid, "exited")
    assert processes.until(lambda: group_files(uuid) == {})


def test_by_a_manifest(ocipod: Ocipod, work: Path) -> None:
    image = busybox(work)
    uuid = ocipod("prepare", "--quiet", "--pids=50", image, *shell("sleep 60")).ok().out.strip()
    manifest = ocipod("cat-manifest", uuid).ok().json
    assert manifest["isolators"] == [{"name": "resource/pids", "value": {"limit": "50"}}]
    manifest["isolators"].append({"name": "resource/memory", "value": {"limit": "32M"}})
    file = work / "manifest"
    file.write_text(json.dumps(manifest))
    words = ("run", "--detach", "--net=none", f"--pod-manifest={file}")
    made = ocipod(*words).ok().out.strip()
    found = group_files(made)
    assert (found["memory.max"], found["pids.max"]) == (str(32 << 20), "50")
    ocipod("stop", "--force", made).ok()
    ocipod(*words, "--memory=1G").failed("--pod-manifest and --memory are mutually exclusive")
    for isolator, message in (
        ({"name": "os/linux/oom-score-adj", "value": 5}, "for apps only"),
        ({"name": "resource/pids", "value": {"limit": "0"}}, "0 is out"),
        (
            {"name": "os/linux/cpu-shares", "value": "x"},
            "os/linux/cpu-shares",
        ),
    ):
        manifest["isolators"] = [isolator]
        file.write_text(json.dumps(manifest))
        ocipod(*words).failed(message)


def test_refusals(ocipod: Ocipod, work: Path) -> None:
    image = busybox(work)
    ocipod("run", "--memory=1", image).failed("--memory: 1 is too small")
    ocipod("app", "sandbox", "--cpu=lots").failed("--cpu: ")
    ocipod("run", "--oom-score-adj=5", image, image).failed("--oom-score-adj")
    done = ocipod("run", "--flavor=fly", "--memory=8M", image, *shell("true")).ok()
    assert "flavour fly: --memory" in done.err
