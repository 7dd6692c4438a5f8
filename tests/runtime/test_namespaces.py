"""Namespaces: new, joined by path, and inherited; user namespaces with their maps."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import isolation, leaks, processes
from tests.support.peers import deviates, judge_by
from tests.support.plugin import MakeBundle, MakeContainer, Probe
from tests.support.refusal import needs_joined_proc

LINKS = {
    "mount": "mnt",
    "pid": "pid",
    "network": "net",
    "ipc": "ipc",
    "uts": "uts",
    "cgroup": "cgroup",
    "time": "time",
    "user": "user",
}


def own(link: str) -> str:
    return os.readlink(f"/proc/self/ns/{link}")


@pytest.mark.parametrize("kind", ["pid", "network", "ipc", "uts", "mount", "cgroup"])
def test_new(probe: Probe, bundle: MakeBundle, kind: str) -> None:
    """LNX-NS-02 and -06."""
    one = bundle().namespace(kind)
    assert probe(one)["namespaces"][LINKS[kind]] != own(LINKS[kind])


@pytest.mark.parametrize("kind", ["pid", "network", "ipc", "uts", "cgroup", "time"])
def test_inherited(probe: Probe, bundle: MakeBundle, kind: str) -> None:
    """LNX-NS-07."""
    one = bundle().without_namespace(kind)
    if kind == "uts":
        del one.config["hostname"]
    if kind == "network":
        one.config["mounts"] = [m for m in one.config["mounts"] if m["type"] != "sysfs"]
    assert probe(one)["namespaces"][LINKS[kind]] == own(LINKS[kind])


@deviates(crun="demands mounts")
def test_inherited_mount_namespace(container: MakeContainer, bundle: MakeBundle) -> None:
    """LNX-NS-07: the bundle's root, with devices, and no mount on the host."""
    one = bundle("sleep", "1000").without_namespace("mount")
    del one.config["mounts"], one.linux["maskedPaths"], one.linux["readonlyPaths"]
    before = leaks.mount_table()
    box = container(one).started()
    assert os.readlink(f"/proc/{box.pid}/ns/mnt") == own("mnt")
    assert leaks.mount_table() == before
    assert os.path.samefile(f"/proc/{box.pid}/root", one.rootfs)
    assert os.major((one.rootfs / "dev" / "null").stat().st_rdev) == 1


@deviates(runc="1.1 has no time namespace", crun="1.8 misses a new one without offsets")
def test_new_time_namespace(probe: Probe, bundle: MakeBundle) -> None:
    """LNX-TIME-01."""
    one = bundle().namespace("time")
    one.config["ociVersion"] = "1.1.0"
    one.linux["timeOffsets"] = {"boottime": {"secs": 1000, "nanosecs": 5}}
    facts = probe(one)
    assert facts["namespaces"]["time"] != own("time")
    assert facts["timens_offsets"] is not None


def test_all_kinds_are_in_place_before_start(container: MakeContainer) -> None:
    """RT-LIFE-01."""
    one = container().created()
    for kind in ("pid", "network", "ipc", "uts", "mount"):
        link = LINKS[kind]
        assert os.readlink(f"/proc/{one.pid}/ns/{link}") != own(link)


@pytest.fixture
def holder() -> Iterator[subprocess.Popen[bytes]]:
    """A process with separate namespaces, and a child that is pid 1 in its pid namespace."""
    kinds = ["--pid", "--net", "--ipc", "--uts", "--cgroup", "--fork"]
    process = subprocess.Popen(["unshare", *kinds, "sleep", "1000"])
    assert processes.until(lambda: _child_sleeps(process.pid))
    yield process
    processes.end(processes.descendants())
    process.wait()


def _child_sleeps(pid: int) -> bool:
    child = _child_of(pid)
    return child is not None and b"sleep" in Path(f"/proc/{child}/cmdline").read_bytes()


def _child_of(pid: int) -> int | None:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(text[0]) if text else None


@pytest.mark.parametrize(
    "kind", ["network", "ipc", "uts", pytest.param("pid", marks=needs_joined_proc), "cgroup"]
)
def test_joined_by_path(
    probe: Probe, bundle: MakeBundle, holder: subprocess.Popen[bytes], kind: str
) -> None:
    """LNX-NS-04."""
    child = _child_of(holder.pid)
    path = f"/proc/{child}/ns/{LINKS[kind]}"
    expected = os.readlink(path)
    one = bundle().namespace(kind, path)
    facts = probe(one)
    assert facts["namespaces"][LINKS[kind]] == expected
    assert expected != own(LINKS[kind])


@needs_joined_proc
def test_joined_pid_namespace_is_not_init(
    probe: Probe, bundle: MakeBundle, holder: subprocess.Popen[bytes]
) -> None:
    child = _child_of(holder.pid)
    assert probe(bundle().namespace("pid", f"/proc/{child}/ns/pid"))["pid"] > 1


def test_joined_network_namespace_by_mounted_file(
    container: MakeContainer, bundle: MakeBundle, work: Path
) -> None:
    """A bind-mounted namespace file, as engines use.

    It still exists after delete.
    """
    place = work / "netns"
    place.touch()
    subprocess.run(["unshare", f"--net={place}", "true"], check=True)
    try:
        inode = place.stat().st_ino
        one = container(bundle().namespace("network", str(place))).started()
        assert os.stat(f"/proc/{one.pid}/ns/net").st_ino == inode
        one.delete("--force").silent()
        assert place.stat().st_ino == inode
    finally:
        isolation.unmount(str(place))


@needs_joined_proc
def test_containers_share_a_namespace(container: MakeContainer, bundle: MakeBundle) -> None:
    """A pod: the second joins network, ipc, uts and pid of the first."""
    first = container().started()
    second = bundle().args("/bin/probe", "sleep")
    del second.config["hostname"]
    for kind in ("network", "ipc", "uts", "pid"):
        second.namespace(kind, f"/proc/{first.pid}/ns/{LINKS[kind]}")
    one = container(second).started()
    for kind in ("network", "ipc", "uts", "pid"):
        paths = [f"/proc/{pid}/ns/{LINKS[kind]}" for pid in (first.pid, one.pid)]
        assert os.readlink(paths[0]) == os.readlink(paths[1])


@pytest.mark.parametrize(("kind", "link"), [("network", "ipc"), ("ipc", "net"), ("uts", "mnt")])
def test_path_of_another_kind(
    container: MakeContainer, bundle: MakeBundle, kind: str, link: str
) -> None:
    """LNX-NS-05."""
    one = container(bundle().namespace(kind, f"/proc/self/ns/{link}"))
    one.create().failed()


@pytest.mark.parametrize("place", ["missing", "file"])
@deviates(runc="names the call alone")
def test_path_that_is_no_namespace(
    container: MakeContainer, bundle: MakeBundle, work: Path, place: str
) -> None:
    """LNX-NS-05."""
    (work / "file").write_text("")
    container(bundle().namespace("network", str(work / place))).create().failed(place)


@deviates(runc="takes it", crun="takes it")
def test_relative_path(container: MakeContainer, bundle: MakeBundle) -> None:
    """LNX-NS-03."""
    container(bundle().namespace("network", "proc/self/ns/net")).create().failed()


def test_hostname_and_domainname(probe: Probe, bundle: MakeBundle) -> None:
    """CFG-HOST-01; the host keeps its own."""
    before = os.uname().nodename
    one = bundle()
    one.config["hostname"] = "inside.example"
    assert probe(one)["hostname"] == "inside.example"
    assert os.uname().nodename == before


@deviates(runc="1.1 is older than domainname")
def test_domainname(probe: Probe, bundle: MakeBundle) -> None:
    """CFG-HOST-02."""
    one = bundle()
    one.config["domainname"] = "example.org"
    assert probe(one)["domainname"] == "example.org"


def test_init_is_process_one(probe: Probe) -> None:
    facts = probe()
    assert (facts["pid"], facts["ppid"]) == (1, 0)
    assert (facts["pgid"], facts["sid"]) == (1, 1)


def test_loopback_is_up(container: MakeContainer, bundle: MakeBundle) -> None:
    """A-100: every engine expects it."""
    script = "ip addr show lo; ping -c 1 -W 5 127.0.0.1 >/dev/null && echo reached"
    one = bundle().shell(script).capabilities("CAP_NET_RAW")
    result = container(one).run().ok()
    assert "127.0.0.1" in result.out
    assert "reached" in result.out


def test_user_namespace(probe: Probe, bundle: MakeBundle) -> None:
    """LNX-IDMAP-02, CFG-USER-02."""
    facts = probe(bundle().user_namespace(100000, 65536))
    assert facts["namespaces"]["user"] != own("user")
    assert facts["uid_map"].split() == ["0", "100000", "65536"]
    assert facts["gid_map"].split() == ["0", "100000", "65536"]
    assert (facts["uid"], facts["gid"]) == (0, 0)


def test_user_namespace_seen_from_the_host(container: MakeContainer, bundle: MakeBundle) -> None:
    one = bundle().user_namespace(200000, 1000)
    one.process["user"] = {"uid": 7, "gid": 8, "additionalGids": [9]}
    made = container(one).started()
    info = dict(
        line.split(":\t", 1)
        for line in Path(f"/proc/{made.pid}/status").read_text().splitlines()
        if ":\t" in line
    )
    assert info["Uid"].split() == ["200007"] * 4
    assert info["Gid"].split() == ["200008"] * 4
    assert info["Groups"].split() == ["200009"]


def test_user_namespace_with_several_ranges(container: MakeContainer, bundle: MakeBundle) -> None:
    one = bundle().user_namespace(100000, 10)
    one.linux["uidMappings"].append({"containerID": 1000, "hostID": 300000, "size": 5})
    made = container(one).created()
    lines = Path(f"/proc/{made.pid}/uid_map").read_text().splitlines()
    assert [line.split() for line in lines] == [["0", "100000", "10"], ["1000", "300000", "5"]]


@judge_by("ociruntime")
@pytest.mark.parametrize("bound", [False, True], ids=["process", "file"])
def test_mappings_of_a_joined_user_namespace(
    container: MakeContainer, bundle: MakeBundle, work: Path, bound: bool
) -> None:
    """RT-CREATE-07: mappings that the namespace does not have are refused, its own are accepted."""
    other = container(bundle().user_namespace(100000, 1000)).created()
    path = Path(f"/proc/{other.pid}/ns/user")
    if bound:
        path = work / "namespace"
        path.touch()
        subprocess.run(["mount", "--bind", f"/proc/{other.pid}/ns/user", path], check=True)
    try:
        same = bundle("true").user_namespace(100000, 1000)
        next(one for one in same.linux["namespaces"] if one["type"] == "user")["path"] = str(path)
        first = {"containerID": 0, "hostID": 100000, "size": 400}
        second = {"containerID": 400, "hostID": 100400, "size": 600}
        same.linux["gidMappings"] = [second, first]
        container(same).create().ok()
        same.linux["gidMappings"] = [first]
        container(same).create().failed("linux.gidMappings", "mappings of", "0 100000 1000")
    finally:
        if bound:
            subprocess.run(["umount", path], check=True)


@judge_by("ociruntime")
def test_domainname_given_twice(container: MakeContainer, bundle: MakeBundle) -> None:
    made = bundle("true")
    made.config["domainname"] = "one"
    made.linux["sysctl"] = {"kernel/domainname": "two"}
    container(made).create().failed("kernel/domainname", "conflicts with domainname")


def test_user_namespace_owns_the_others(container: MakeContainer, bundle: MakeBundle) -> None:
    """NS_GET_USERNS of the network namespace is the container's user namespace."""
    one = container(bundle().user_namespace()).created()
    libc = ctypes.CDLL(None, use_errno=True)
    ns_get_userns = 0xB701
    for link in ("net", "uts", "ipc", "pid", "mnt"):
        fd = os.open(f"/proc/{one.pid}/ns/{link}", os.O_RDONLY | os.O_CLOEXEC)
        owner = libc.ioctl(fd, ns_get_userns)
        assert owner >= 0, link
        assert os.fstat(owner).st_ino == os.stat(f"/proc/{one.pid}/ns/user").st_ino
        os.close(owner)
        os.close(fd)


def test_user_namespace_does_not_change_owners(
    container: MakeContainer, bundle: MakeBundle
) -> None:
    """LNX-IDMAP-03."""
    one = bundle().user_namespace(100000, 65536)
    mark = one.rootfs / "etc" / "passwd"
    os.chown(mark, 5, 6)
    container(one.args("true")).run().ok()
    assert (mark.stat().st_uid, mark.stat().st_gid) == (5, 6)


def test_whole_life_in_a_user_namespace(container: MakeContainer, bundle: MakeBundle) -> None:
    one = container(bundle().user_namespace()).started()
    assert one.status == "running"
    one.kill("KILL").silent()
    one.wait()
    one.delete().silent()


@pytest.mark.parametrize(
    ("kind", "file", "setting"),
    [
        ("network", "net", {"linux": {"sysctl": {"net.ipv4.ip_forward": "0"}}}),
        ("ipc", "ipc", {"linux": {"sysctl": {"kernel.msgmax": "8192"}}}),
        ("uts", "uts", {"hostname": "box"}),
    ],
)
@deviates(runc="compares the network namespace only", crun="not compared")
def test_the_runtimes_own_by_path(
    container: MakeContainer, bundle: MakeBundle, kind: str, file: str, setting: dict[str, Any]
) -> None:
    """A-82, A-36: settings in it would change the host."""
    one = bundle().namespace(kind, f"/proc/self/ns/{file}")
    one.config.pop("hostname")
    one.linux.update(setting.pop("linux", {}))
    one.config.update(setting)
    container(one).create().failed("the host", kind)
