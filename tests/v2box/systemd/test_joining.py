"""`exec` into containers that are systemd units."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support import cgroupfs, systemd
from tests.support.plugin import TAG, MakeBundle, MakeContainer


def path(pid: int) -> str:
    return Path(f"/proc/{pid}/cgroup").read_text().strip().removeprefix("0::")


@pytest.mark.parametrize("subgroup", ["", "container"])
@pytest.mark.parametrize("moved", [False, True], ids=["born inside", "moved in"])
def test_beside_the_first(
    container: MakeContainer, bundle: MakeBundle, subgroup: str, moved: bool
) -> None:
    """A delegated unit allows it, and keeps its limits."""
    wanted = bundle()
    wanted.linux["cgroupsPath"] = f":{TAG}:one"
    wanted.resources["pids"] = {"limit": 17}
    if subgroup:
        wanted.config["annotations"] = {"run.oci.systemd.subgroup": subgroup}
    one = container(wanted).started()
    process = {"args": ["sleep", "50"], "cwd": "/", "user": {"uid": 0, "gid": 0}}
    if moved:
        process["execCPUAffinity"] = {"initial": str(min(os.sched_getaffinity(0)))}
    document = one.bundle.path / "process.json"
    document.write_text(json.dumps(process))
    pid = one.exec_detached(f"--process={document}")
    unit = f"/system.slice/{TAG}-one.scope"
    assert path(pid) == path(one.pid) == (f"{unit}/{subgroup}" if subgroup else unit)
    shown = systemd.properties(f"{TAG}-one.scope", "TasksCurrent", "TasksMax")
    assert shown == {"TasksCurrent": "2", "TasksMax": "17"}


def test_cgroup_below_the_unit_s(container: MakeContainer, bundle: MakeBundle) -> None:
    wanted = bundle()
    wanted.linux["cgroupsPath"] = f":{TAG}:one"
    one = container(wanted).started()
    place = cgroupfs.directory(one.pid, "")
    (place / "inner").mkdir()
    pid = one.exec_detached("--cgroup=inner", "sleep", "50")
    assert path(pid) == f"{path(one.pid)}/inner"


def test_controllers_passed_on(container: MakeContainer, bundle: MakeBundle) -> None:
    """The init has left the unit's own cgroup, which accepts no more processes."""
    wanted = bundle()
    wanted.linux["cgroupsPath"] = f":{TAG}:one"
    one = container(wanted).started()
    place = cgroupfs.directory(one.pid, "")
    (place / "init").mkdir()
    (place / "init" / "cgroup.procs").write_text(str(one.pid))
    (place / "cgroup.subtree_control").write_text("+pids")
    pid = one.exec_detached("sleep", "50")
    assert path(pid) == path(one.pid) == f"/system.slice/{place.name}/init"


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ({"unified": {"cpu.weight": "20000"}}, "cpu.weight"),
        ({"unified": {"pids.max": "many"}}, "pids.max"),
        ({"unified": {"memory.high": "much"}}, "memory.high"),
        ({"unified": {"io.max": "nothing"}}, "io.max"),
        ({"cpu": {"quota": 1, "period": 100000}}, "cpu"),
    ],
    ids=str,
)
def test_update_that_is_refused(
    container: MakeContainer,
    bundle: MakeBundle,
    resources: dict[str, object],
    words: str,
) -> None:
    """By systemd or by the kernel: both then have the previous limits."""
    wanted = bundle()
    wanted.linux["cgroupsPath"] = f":{TAG}:one"
    wanted.resources["pids"] = {"limit": 17}
    wanted.resources["cpu"] = {"shares": 2048, "quota": 50000, "period": 100000}
    one = container(wanted).started()
    place = cgroupfs.directory(one.pid, "")
    names = ("pids.max", "memory.max", "memory.high", "memory.low", "cpu.max", "cpu.weight")
    told = ("TasksMax", "MemoryMax", "MemoryHigh", "MemoryLow", "CPUQuotaPerSecUSec", "CPUWeight")

    def limits() -> tuple[list[str], dict[str, str]]:
        files = [(place / name).read_text().strip() for name in names]
        return files, systemd.properties(place.name, *told)

    before = limits()
    state = one.state()
    document = one.bundle.path / "resources.json"
    others = {"memory": {"limit": 64 << 20, "reservation": 32 << 20}}
    document.write_text(json.dumps({**others, **resources}))
    refused = one.runtime("update", f"--resources={document}", one.id)
    refused.failed(words)
    assert limits() == before
    assert one.state() == state
    systemd.systemctl("daemon-reload")
    assert limits() == before
