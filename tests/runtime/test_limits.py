"""cgroups: the container's path, its limits, and the removal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support import cgroupfs, processes
from tests.support.bundle import Bundle
from tests.support.peers import deviates
from tests.support.plugin import TAG, MakeBundle, MakeContainer

MIB = 1 << 20


def limited(bundle: Bundle, **resources: Any) -> Bundle:  # noqa: ANN401
    bundle.resources.update(resources)
    return bundle


def test_memory(container: MakeContainer, bundle: MakeBundle) -> None:
    memory = {"limit": 64 * MIB, "reservation": 32 * MIB}
    one = container(limited(bundle(), memory=memory)).created()
    limit = cgroupfs.setting(one.pid, "memory", "memory.limit_in_bytes", "memory.max")
    soft = cgroupfs.setting(one.pid, "memory", "memory.soft_limit_in_bytes", "memory.low")
    assert (int(limit), int(soft)) == (64 * MIB, 32 * MIB)


def test_memory_is_enforced(container: MakeContainer, bundle: MakeBundle) -> None:
    """The program is OOM-killed, and the container's exit status says so."""
    script = "head -c 100000000 /dev/zero | tail -c 90000000 | wc -c"
    one = limited(bundle().shell(script), memory={"limit": 16 * MIB})
    assert container(one).run().out.strip() in ("", "0")


@pytest.fixture
def oom_control() -> None:
    if not Path("/sys/fs/cgroup/memory/memory.oom_control").exists():
        pytest.skip("needs the memory controller of cgroup v1")


@pytest.mark.usefixtures("oom_control")
def test_no_oom_killer(container: MakeContainer, bundle: MakeBundle) -> None:
    memory = {"limit": 64 * MIB, "disableOOMKiller": True}
    one = container(limited(bundle(), memory=memory)).created()
    control = cgroupfs.directory(one.pid, "memory") / "memory.oom_control"
    assert "oom_kill_disable 1" in control.read_text().splitlines()
    one.start()


@pytest.mark.usefixtures("oom_control")
def test_an_init_beyond_its_limit_without_oom_killer(
    container: MakeContainer, bundle: MakeBundle
) -> None:
    """The init, and with it create, would wait for memory forever."""
    one = container(limited(bundle(), memory={"limit": 1, "disableOOMKiller": True}))
    one.create().failed("linux.resources.memory.limit", "OOM-killed")


def test_pids(container: MakeContainer, bundle: MakeBundle) -> None:
    one = container(limited(bundle(), pids={"limit": 17})).created()
    assert cgroupfs.setting(one.pid, "pids", "pids.max", "pids.max") == "17"


def test_pids_are_enforced(container: MakeContainer, bundle: MakeBundle) -> None:
    script = "for i in 1 2 3 4 5 6 7 8 9; do sleep 1 & done; wait"
    result = container(limited(bundle().shell(script), pids={"limit": 5})).run()
    assert "fork" in result.err


def test_cpu(container: MakeContainer, bundle: MakeBundle) -> None:
    one = container(
        limited(bundle(), cpu={"shares": 512, "quota": 50000, "period": 100000})
    ).created()
    if cgroupfs.is_v2():
        assert cgroupfs.setting(one.pid, "cpu", "", "cpu.max") == "50000 100000"
        # The kernel's own curve for shares is a matter of taste; it must be below 100.
        assert 1 <= int(cgroupfs.setting(one.pid, "cpu", "", "cpu.weight")) < 100
        return
    place = cgroupfs.directory(one.pid, "cpu")
    assert (place / "cpu.shares").read_text().strip() == "512"
    assert (place / "cpu.cfs_quota_us").read_text().strip() == "50000"
    assert (place / "cpu.cfs_period_us").read_text().strip() == "100000"


def test_cpuset(container: MakeContainer, bundle: MakeBundle) -> None:
    if not cgroupfs.has("cpuset"):
        pytest.skip("the kernel has no cpuset controller")
    one = container(limited(bundle(), cpu={"cpus": "0", "mems": "0"})).created()
    assert cgroupfs.setting(one.pid, "cpuset", "cpuset.cpus", "cpuset.cpus") == "0"
    status = Path(f"/proc/{one.pid}/status").read_text()
    assert "Cpus_allowed_list:\t0\n" in status


@pytest.mark.parametrize("limit", [-1, 0])
@deviates(runc="takes 0 for unlimited", crun="takes 0 for unlimited")
def test_pids_without_limit_and_with_none(
    container: MakeContainer, bundle: MakeBundle, limit: int
) -> None:
    """A-31: -1 is unlimited, 0 is 0."""
    one = container(limited(bundle(), pids={"limit": limit})).created()
    setting = cgroupfs.setting(one.pid, "pids", "pids.max", "pids.max")
    assert setting == ("max" if limit < 0 else "0")


def test_in_every_hierarchy_before_it_runs(container: MakeContainer, bundle: MakeBundle) -> None:
    """The program's first view of itself already shows its own cgroup."""
    one = bundle("cat", "/proc/self/cgroup")
    result = container(one).run().ok()
    host = {line.split(":", 2)[1]: line for line in result.out.splitlines()}
    for name, line in host.items():
        if name in cgroupfs.hierarchies():
            assert TAG in line, line


def test_path_is_honoured(container: MakeContainer, bundle: MakeBundle) -> None:
    """LNX-CGPATH: below the root of each hierarchy; parents are created."""
    one = bundle()
    one.linux["cgroupsPath"] = f"/{TAG}parent/child"
    made = container(one).created()
    places = cgroupfs.of_process(made.pid)
    for controller in ("memory", "pids", "cpu", "devices", "freezer"):
        if controller in places:
            assert places[controller].parts[-2:] == (f"{TAG}parent", "child"), controller
    made.delete("--force").silent()
    assert not [place for place in cgroupfs.named(f"{TAG}parent") if place.name == "child"]
    cgroupfs.remove(cgroupfs.named(f"{TAG}parent"))


def test_existing_parent_stays(container: MakeContainer, bundle: MakeBundle) -> None:
    """RT-DELETE-05."""
    own = cgroupfs.of_process("self")["" if cgroupfs.is_v2() else "pids"]
    parent = own / f"{TAG}mine"
    parent.mkdir()
    mountpoint = cgroupfs.hierarchies()["" if cgroupfs.is_v2() else "pids"]
    one = bundle()
    one.linux["cgroupsPath"] = f"/{parent.relative_to(mountpoint)}/child"
    container(one).created().delete("--force").silent()
    assert parent.is_dir()
    assert not (parent / "child").exists()
    cgroupfs.remove(cgroupfs.named(f"{TAG}mine"))


def test_two_containers_below_one_parent(container: MakeContainer, bundle: MakeBundle) -> None:
    """The second keeps its cgroup when the first is deleted."""
    made = []
    for name in ("one", "two"):
        single = bundle()
        single.linux["cgroupsPath"] = f"/{TAG}shared/{name}"
        made.append(container(single).started())
    made[0].delete("--force").silent()
    assert made[1].status == "running"
    assert cgroupfs.directory(made[1].pid, "memory").name == "two"
    made[1].delete("--force").silent()
    cgroupfs.remove(cgroupfs.named(f"{TAG}shared"))


def test_sub_cgroups_of_the_container_go_too(container: MakeContainer, bundle: MakeBundle) -> None:
    """Child cgroups that the container has created are removed first."""
    made = container().started()
    place = cgroupfs.directory(made.pid, "pids")
    (place / "below" / "deeper").mkdir(parents=True)
    made.kill("KILL").silent()
    made.wait()
    made.delete().silent()
    assert not place.exists()


def test_delete_waits_for_a_frozen_container(container: MakeContainer, bundle: MakeBundle) -> None:
    """On v1, SIGKILL reaches frozen processes only once they are thawed."""
    made = container().started()
    if cgroupfs.is_v2():
        (cgroupfs.directory(made.pid, "") / "cgroup.freeze").write_text("1")
    else:
        (cgroupfs.directory(made.pid, "freezer") / "freezer.state").write_text("FROZEN")
    assert processes.until(lambda: made.status == "paused")
    made.delete().failed()
    made.delete("--force").silent()


def test_kill_of_a_frozen_container(container: MakeContainer) -> None:
    made = container().started()
    place = cgroupfs.directory(made.pid, "freezer")
    name, value = ("cgroup.freeze", "1") if cgroupfs.is_v2() else ("freezer.state", "FROZEN")
    (place / name).write_text(value)
    assert processes.until(lambda: made.status == "paused")
    made.kill("KILL").silent()
    assert made.wait() == 137


@deviates(crun="takes it")
def test_systemd_paths_need_systemd(container: MakeContainer, bundle: MakeBundle) -> None:
    """--systemd-cgroup is accepted; if it is impossible, the error says so."""
    one = bundle()
    one.linux["cgroupsPath"] = f"system.slice:test:{TAG}"
    one.save()
    made = container(one)
    result = made.runtime("--systemd-cgroup", "create", "--bundle", str(one.path), made.id)
    assert result.status == 1
    assert "systemd" in result.err
    assert result.err.count("\n") == 1
