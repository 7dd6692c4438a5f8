"""A container's life on cgroup v2: the kernel's limits, the start in the cgroup, nothing left."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import cgroupfs, processes
from tests.support.bundle import Bundle
from tests.support.plugin import TAG, MakeBundle, MakeContainer

MIB = 1 << 20
# What engines grant; the runtime itself never takes it.
MKNOD = "CAP_MKNOD"


@pytest.fixture(autouse=True)
def _watch(nothing_left: None) -> None:
    """Apply the leak check to each test."""


def root_group() -> Path:
    return cgroupfs.hierarchies()[""]


def value(place: Path, file: str) -> str:
    return (place / file).read_text().strip()


def limited(bundle: Bundle, **resources: Any) -> Bundle:  # noqa: ANN401
    bundle.resources.update(resources)
    return bundle


@pytest.fixture
def parent() -> Iterator[Path]:
    """A cgroup of the administrator.

    Request it first: it is removed last.
    """
    place = root_group() / f"{TAG}parent"
    place.mkdir()
    yield place
    cgroupfs.remove(cgroupfs.named(place.name))


def below(bundle: Bundle, parent: Path, name: str = "child") -> Bundle:
    bundle.linux["cgroupsPath"] = f"/{parent.name}/{name}"
    return bundle


LIMITS = {
    "memory": {"limit": 64 * MIB, "swap": 96 * MIB, "reservation": 32 * MIB},
    "pids": {"limit": 17},
    "cpu": {"shares": 1024, "quota": 50000, "period": 100000},
    "unified": {"memory.high": str(48 * MIB)},
}
AS_WRITTEN = {
    "memory.max": str(64 * MIB),
    "memory.swap.max": str(32 * MIB),
    "memory.low": str(32 * MIB),
    "memory.high": str(48 * MIB),
    "pids.max": "17",
    "cpu.max": "50000 100000",
    "cpu.weight": "100",
}


def test_a_whole_life_with_limits(container: MakeContainer, bundle: MakeBundle) -> None:
    one = container(limited(bundle(), **LIMITS)).created()
    place = cgroupfs.directory(one.pid, "")
    assert {file: value(place, file) for file in AS_WRITTEN} == AS_WRITTEN
    assert one.status == "created"
    one.start().silent()
    assert one.status == "running"
    assert {file: value(place, file) for file in AS_WRITTEN} == AS_WRITTEN
    assert value(place, "cgroup.procs") == str(one.pid)
    one.kill("KILL").silent()
    assert one.wait() == 137
    assert one.status == "stopped"
    one.delete().silent()
    assert not place.exists()


def test_without_limits(container: MakeContainer) -> None:
    one = container().created()
    place = cgroupfs.directory(one.pid, "")
    files = ("memory.max", "memory.swap.max", "pids.max", "cpu.max", "cpu.weight")
    assert [value(place, file) for file in files] == ["max", "max", "max", "max 100000", "100"]


@pytest.mark.parametrize(
    ("shares", "least", "most"), [(2, 1, 1), (1024, 39, 100), (262144, 10000, 10000)]
)
def test_shares(
    container: MakeContainer, bundle: MakeBundle, shares: int, least: int, most: int
) -> None:
    """Both ends correspond; between them, runtimes have used two curves."""
    one = container(limited(bundle(), cpu={"shares": shares})).created()
    assert least <= int(value(cgroupfs.directory(one.pid, ""), "cpu.weight")) <= most


def test_memory_is_enforced(parent: Path, container: MakeContainer, bundle: MakeBundle) -> None:
    """The program that exceeds the limit is the init, so the container exits."""
    greedy = below(bundle("tail", "-c", "90000000", "/dev/zero"), parent)
    one = container(limited(greedy, memory={"limit": 16 * MIB, "swap": 16 * MIB})).started()
    assert one.wait() == 137
    events = dict(line.split() for line in value(parent / "child", "memory.events").splitlines())
    assert int(events["oom_kill"]) >= 1
    assert one.status == "stopped"


def test_born_in_its_cgroup(parent: Path, container: MakeContainer, bundle: MakeBundle) -> None:
    """CLONE_INTO_CGROUP: a full pids cgroup refuses forks, but not moved processes."""
    (root_group() / "cgroup.subtree_control").write_text("+pids")
    (parent / "cgroup.subtree_control").write_text("+pids")
    (parent / "pids.max").write_text("0")
    mover = os.fork()
    if mover == 0:
        signal.pause()
    try:
        (parent / "mover").mkdir()
        (parent / "mover" / "cgroup.procs").write_text(str(mover))
    finally:
        processes.end({mover})
        os.waitpid(mover, 0)
    result = container(below(bundle(), parent)).create()
    assert result.status == 1
    assert "resource temporarily unavailable" in result.err.lower()
    assert result.err.count("\n") == 1
    assert not (parent / "child").exists()
    (parent / "pids.max").write_text("max")
    container(below(bundle(), parent)).created()


def test_its_cgroup_is_the_root_of_its_view(container: MakeContainer, bundle: MakeBundle) -> None:
    one = bundle("cat", "/proc/self/cgroup").namespace("cgroup")
    assert container(one).run().ok().out == "0::/\n"


def test_it_sees_its_own_limits(container: MakeContainer, bundle: MakeBundle) -> None:
    one = limited(bundle().namespace("cgroup"), memory={"limit": 64 * MIB})
    one.mount("/sys/fs/cgroup", "cgroup", "cgroup", "nosuid", "noexec", "nodev", "relatime", "ro")
    script = "cat /sys/fs/cgroup/memory.max; cd /sys/fs/cgroup; echo max >memory.max"
    result = container(one.shell(script)).run()
    assert result.out == f"{64 * MIB}\n"
    assert "Read-only file system" in result.err


def device_bundle(bundle: Bundle, *rules: dict[str, Any]) -> Bundle:
    """A bundle with the host's /dev/kmsg that may create devices."""
    script = """
        (: </dev/kmsg) 2>/dev/null && echo kmsg || echo no kmsg
        (: >/dev/zero) 2>/dev/null && echo zero || echo no zero
        mknod /tmp/null c 1 3 2>/dev/null && echo node || echo no node
        mknod /tmp/mem c 1 1 2>/dev/null && echo another
        (: </tmp/mem) 2>/dev/null && echo mem || echo no mem
    """
    bundle.resources["devices"] = [{"allow": False, "access": "rwm"}, *rules]
    bundle.bind("/dev/kmsg", "/dev/kmsg").mount("/tmp", "tmpfs", "tmpfs")
    return bundle.capabilities(MKNOD).shell(script)


def test_devices(container: MakeContainer, bundle: MakeBundle) -> None:
    """The eBPF program allows what the rules allow, and the default devices."""
    assert stat.S_ISCHR(os.stat("/dev/kmsg").st_mode)
    closed = container(device_bundle(bundle())).run().ok()
    assert closed.out.splitlines() == ["no kmsg", "zero", "node", "another", "no mem"]
    kmsg = {"allow": True, "type": "c", "major": 1, "minor": 11, "access": "r"}
    unwritable = {"allow": False, "type": "c", "major": 1, "minor": 5, "access": "w"}
    opened = container(device_bundle(bundle(), kmsg, unwritable)).run().ok()
    assert opened.out.splitlines() == ["kmsg", "no zero", "node", "another", "no mem"]


def test_everybody_is_killed(container: MakeContainer, bundle: MakeBundle) -> None:
    """cgroup.kill, including processes in cgroups that the container has created."""
    many = bundle().shell("for i in 1 2 3; do setsid sleep 1000 & done; echo ready; sleep 1000")
    one = container(many.without_namespace("pid")).started()
    one.wait_output("ready")
    place = cgroupfs.directory(one.pid, "")
    inner = place / "inner" / "most"
    inner.mkdir(parents=True)
    members = [pid for pid in value(place, "cgroup.procs").split() if int(pid) != one.pid]
    assert len(members) == 3
    (inner / "cgroup.procs").write_text(members[0])
    one.delete("--force").silent()
    assert not place.exists()
    assert not any(processes.alive(int(pid)) for pid in members)


def with_cgroup_mount(bundle: Bundle, *options: str) -> Bundle:
    return bundle.namespace("cgroup").mount("/sys/fs/cgroup", "cgroup", "cgroup", *options)


def owners(place: Path) -> dict[str, int]:
    return {path.name: path.stat().st_uid for path in (place, *place.iterdir())}


def test_a_container_that_may_write_owns_its_cgroup(
    container: MakeContainer, bundle: MakeBundle
) -> None:
    """LNX-CGOWN-03, -05 and -09: the directory and the delegatable files, no more."""
    one = container(with_cgroup_mount(bundle().user_namespace(100000))).created()
    place = cgroupfs.directory(one.pid, "")
    delegated = {place.name, *Path("/sys/kernel/cgroup/delegate").read_text().split()}
    found = owners(place)
    assert found == {name: 100000 * (name in delegated) for name in found}
    assert found["memory.max"] == 0


def test_its_user_is_the_owner(container: MakeContainer, bundle: MakeBundle) -> None:
    """The uid of the process as seen on the host."""
    one = with_cgroup_mount(bundle().user_namespace(100000))
    one.process["user"] = {"uid": 7, "gid": 8}
    facts = cgroupfs.directory(container(one).created().pid, "").stat()
    assert (facts.st_uid, facts.st_gid) == (100007, 0)


def test_it_can_make_cgroups_of_its_own(container: MakeContainer, bundle: MakeBundle) -> None:
    script = """
        cd /sys/fs/cgroup && mkdir payload && echo $$ >payload/cgroup.procs &&
        echo +pids >cgroup.subtree_control && cat payload/pids.max
    """
    one = with_cgroup_mount(bundle().user_namespace(100000)).shell(script)
    assert container(one).run().ok().out == "max\n"


@pytest.mark.parametrize("why", ["read-only", "no mount", "no cgroup namespace"])
def test_otherwise_the_host_owns_it(container: MakeContainer, bundle: MakeBundle, why: str) -> None:
    """LNX-CGOWN-02, -03 and -04."""
    one = bundle().user_namespace(100000)
    if why != "no mount":
        with_cgroup_mount(one, *(["ro"] if why == "read-only" else []))
    if why == "no cgroup namespace":
        one.without_namespace("cgroup")
    place = cgroupfs.directory(container(one).created().pid, "")
    assert set(owners(place).values()) == {0}
