"""Mounts of every kind that an engine asks for, their options, and the root itself."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import isolation
from tests.support.bundle import Bundle
from tests.support.container import Container
from tests.support.peers import deviates
from tests.support.plugin import MakeBundle, MakeContainer

MS_SHARED = 1 << 20


class Seen:
    """One line of a mountinfo."""

    def __init__(self, line: str) -> None:
        left, _, right = line.partition(" - ")
        fields = left.split(" ")
        self.target = fields[4]
        self.root = fields[3]
        self.options = set(fields[5].split(","))
        self.propagation = [word.split(":")[0] for word in fields[6:]]
        self.fstype, self.source, super_options = right.split(" ", 2)
        self.super_options = set(super_options.split(","))


def mounts_of(one: Container) -> dict[str, Seen]:
    """The container's mount table by mount point; of several the topmost."""
    text = Path(f"/proc/{one.pid}/mountinfo").read_text()
    lines = [Seen(line) for line in text.splitlines()]
    return {line.target: line for line in lines}


def seen(container: MakeContainer, bundle: Bundle, target: str) -> Seen:
    """How a mount stands in a created container."""
    return mounts_of(container(bundle).created())[target]


def test_default_mounts(container: MakeContainer) -> None:
    table = mounts_of(container().created())
    expected = {
        "/proc": "proc",
        "/dev": "tmpfs",
        "/dev/pts": "devpts",
        "/dev/shm": "tmpfs",
        "/dev/mqueue": "mqueue",
        "/sys": "sysfs",
    }
    assert {target: table[target].fstype for target in expected} == expected
    assert {"nosuid", "nodev", "noexec"} <= table["/proc"].options
    assert {"nosuid", "nodev", "noexec", "ro"} <= table["/sys"].options
    assert {"nosuid", "rw"} <= table["/dev"].options
    assert "nodev" not in table["/dev"].options
    assert {"mode=755", "size=65536k"} <= table["/dev"].super_options
    assert {"gid=5", "mode=620", "ptmxmode=666"} <= table["/dev/pts"].super_options


def test_nothing_of_the_host_is_left(container: MakeContainer) -> None:
    """After pivot_root the old tree is gone: the root and what the config lists."""
    table = mounts_of(container().created())
    outside = {"/", "/proc", "/dev", "/sys"}
    for target in table:
        assert target in outside or target.startswith(("/dev/", "/proc/", "/sys/")), target


def test_bind_directory_and_file(container: MakeContainer, bundle: MakeBundle, work: Path) -> None:
    """Mount points are made, as a directory or as a file."""
    (work / "dir").mkdir()
    (work / "dir" / "name").write_text("in the directory\n")
    (work / "file").write_text("in the file\n")
    one = bundle().shell("cat /a/b/name /c/d/file; echo new > /a/b/new")
    one.bind(work / "dir", "/a/b").bind(work / "file", "/c/d/file", "bind")
    assert container(one).run().ok().out == "in the directory\nin the file\n"
    assert (work / "dir" / "new").read_text() == "new\n"


def test_bind_source_relative_to_the_bundle(container: MakeContainer, bundle: MakeBundle) -> None:
    one = bundle("cat", "/data/name")
    (one.path / "data").mkdir()
    (one.path / "data" / "name").write_text("beside\n")
    one.bind("data", "/data", "bind")
    assert container(one).run().ok().out == "beside\n"


def test_read_only_bind(container: MakeContainer, bundle: MakeBundle, work: Path) -> None:
    (work / "dir").mkdir()
    one = bundle().shell("touch /data/new").bind(work / "dir", "/data", "ro")
    result = container(one).run()
    assert result.status == 1
    assert "Read-only" in result.err
    assert not list((work / "dir").iterdir())


@pytest.mark.parametrize(
    ("option", "expected"),
    [("nosuid", "nosuid"), ("nodev", "nodev"), ("noexec", "noexec"), ("noatime", "noatime")],
)
def test_flags_on_a_bind(
    container: MakeContainer, bundle: MakeBundle, work: Path, option: str, expected: str
) -> None:
    """A bind takes no flags in the call that makes it; they need a second one."""
    assert expected in seen(container, bundle().bind(work, "/data", option), "/data").options


def test_rbind_takes_what_is_below(
    container: MakeContainer, bundle: MakeBundle, work: Path
) -> None:
    (work / "dir" / "sub").mkdir(parents=True)
    isolation.mount("tmpfs", str(work / "dir" / "sub"), "tmpfs")
    (work / "dir" / "sub" / "deep").write_text("deep\n")
    one = bundle("cat", "/data/sub/deep").bind(work / "dir", "/data")
    assert container(one).run().ok().out == "deep\n"
    plain = bundle("ls", "/data/sub").bind(work / "dir", "/data", "bind")
    assert container(plain).run().ok().out == ""
    isolation.unmount(str(work / "dir" / "sub"))


@deviates(runc="only the top")
def test_recursive_read_only(container: MakeContainer, bundle: MakeBundle, work: Path) -> None:
    """CFG-MOPT rro: the mounts below as well."""
    (work / "dir" / "sub").mkdir(parents=True)
    isolation.mount("tmpfs", str(work / "dir" / "sub"), "tmpfs")
    one = bundle().bind(work / "dir", "/data", "rro")
    table = mounts_of(container(one).created())
    assert "ro" in table["/data"].options
    assert "ro" in table["/data/sub"].options
    isolation.unmount(str(work / "dir" / "sub"))


def test_tmpfs_with_data(container: MakeContainer, bundle: MakeBundle) -> None:
    options = ("nosuid", "nodev", "size=1m", "mode=1700", "uid=7", "gid=8", "nr_inodes=99")
    one = bundle("stat", "-c", "%a %u %g", "/scratch").mount("/scratch", "tmpfs", "tmpfs", *options)
    assert container(one).run().ok().out == "1700 7 8\n"
    options_seen = seen(container, one, "/scratch").super_options
    assert {"size=1024k", "nr_inodes=99"} <= options_seen


@pytest.mark.parametrize(
    ("option", "present", "absent"),
    [
        ("ro", "ro", "rw"),
        ("rw", "rw", "ro"),
        ("noatime", "noatime", "relatime"),
        ("relatime", "relatime", "noatime"),
        ("nodiratime", "nodiratime", ""),
        ("noexec", "noexec", ""),
        ("strictatime", "rw", "relatime"),
    ],
)
def test_flags_on_a_file_system(
    container: MakeContainer, bundle: MakeBundle, option: str, present: str, absent: str
) -> None:
    got = seen(container, bundle().mount("/scratch", "tmpfs", "t", option), "/scratch").options
    assert present in got
    assert absent not in got


@pytest.mark.parametrize("option", ["silent", "loud", "sync", "async", "exec", "suid", "dev"])
@deviates(crun="EINVAL for some")
def test_flags_without_a_trace(container: MakeContainer, bundle: MakeBundle, option: str) -> None:
    """A-46: they have to be accepted."""
    container(bundle().mount("/scratch", "tmpfs", "t", option)).created()


@deviates(runc="sends it to the file system as data")
def test_defaults_is_no_option_of_the_file_system(
    container: MakeContainer, bundle: MakeBundle
) -> None:
    """A-45."""
    container(bundle().mount("/scratch", "tmpfs", "t", "defaults")).created()


def test_later_option_wins(container: MakeContainer, bundle: MakeBundle) -> None:
    one = bundle().mount("/scratch", "tmpfs", "t", "ro", "noexec", "rw", "exec")
    got = seen(container, one, "/scratch").options
    assert "rw" in got
    assert "noexec" not in got


def test_order_and_nesting(container: MakeContainer, bundle: MakeBundle, work: Path) -> None:
    """Listed order: the second hides the first, the third sits in the second."""
    (work / "dir").mkdir()
    (work / "dir" / "name").write_text("bind\n")
    one = bundle().shell("ls /data; cat /data/sub/name")
    one.mount("/data", "tmpfs", "one").mount("/data", "tmpfs", "two")
    one.bind(work / "dir", "/data/sub")
    assert container(one).run().ok().out == "sub\nbind\n"


@deviates(runc="warns")
def test_relative_destination(container: MakeContainer, bundle: MakeBundle) -> None:
    """Allowed again since 1.2: taken from the root."""
    assert seen(container, bundle().mount("data", "tmpfs", "t"), "/data").fstype == "tmpfs"


@pytest.mark.parametrize(
    ("option", "word"), [("shared", "shared"), ("slave", "master"), ("private", "")]
)
def test_propagation_of_a_mount(
    container: MakeContainer, bundle: MakeBundle, shared: Path, option: str, word: str
) -> None:
    got = seen(container, bundle().bind(shared, "/data", f"r{option}"), "/data").propagation
    assert word in got if word else got == []


@pytest.fixture
def shared(work: Path) -> Iterator[Path]:
    """A mount with a peer group of its own."""
    place = work / "shared"
    place.mkdir()
    isolation.mount("tmpfs", str(place), "tmpfs")
    isolation.mount("none", str(place), "", MS_SHARED)
    yield place
    isolation.unmount(str(place))


@pytest.mark.parametrize(
    ("given", "allowed"),
    [
        (None, ([], ["master"])),
        ("private", ([],)),
        ("slave", ([], ["master"])),
        ("shared", (["shared"],)),
        ("unbindable", (["unbindable"],)),
    ],
)
@deviates(runc="cannot bind an unbindable root, and leaves a shared one private")
def test_root_propagation(
    container: MakeContainer, bundle: MakeBundle, given: str | None, allowed: tuple[list[str], ...]
) -> None:
    """LNX-PROP-02, A-43."""
    one = bundle()
    if given:
        one.linux["rootfsPropagation"] = given
    assert seen(container, one, "/").propagation in allowed


def test_host_mounts_reach_a_slave(
    container: MakeContainer, bundle: MakeBundle, shared: Path
) -> None:
    (shared / "sub").mkdir()
    one = container(bundle().bind(shared, "/data", "rslave")).created()
    isolation.mount("tmpfs", str(shared / "sub"), "tmpfs")
    assert "/data/sub" in mounts_of(one)
    isolation.unmount(str(shared / "sub"))


def test_container_mounts_do_not_reach_the_host(
    container: MakeContainer, bundle: MakeBundle, shared: Path
) -> None:
    """The root file system itself on a shared mount; the watch sees any that came back."""
    one = bundle()
    target = shared / "rootfs"
    subprocess.run(["cp", "-a", one.rootfs, target], check=True)
    one.config["root"]["path"] = str(target)
    one.mount("/scratch", "tmpfs", "t")
    before = Path("/proc/self/mountinfo").read_text()
    container(one).started()
    assert Path("/proc/self/mountinfo").read_text() == before


def test_read_only_root(container: MakeContainer, bundle: MakeBundle) -> None:
    one = bundle().shell("echo x > /new; echo y > /scratch/new && cat /scratch/new")
    one.mount("/scratch", "tmpfs", "t")
    one.config["root"]["readonly"] = True
    result = container(one).run().ok()
    assert result.out == "y\n"
    assert "Read-only" in result.err
    assert "ro" in seen(container, one, "/").options


def test_root_by_absolute_path(container: MakeContainer, bundle: MakeBundle, work: Path) -> None:
    """BUNDLE-04, CFG-ROOT-03."""
    one = bundle("echo", "here")
    one.rootfs.rename(work / "elsewhere")
    one.config["root"]["path"] = str(work / "elsewhere")
    made = container(one)
    assert made.run().ok().out == "here\n"


@deviates(runc="refuses it")
def test_root_that_is_a_symbolic_link(
    container: MakeContainer, bundle: MakeBundle, work: Path
) -> None:
    """A-104."""
    one = bundle("echo", "here")
    one.rootfs.rename(work / "elsewhere")
    one.rootfs.symlink_to(work / "elsewhere")
    assert container(one).run().ok().out == "here\n"


def test_no_pivot(container: MakeContainer, bundle: MakeBundle) -> None:
    one = container(bundle().shell("ls /"))
    result = one.run("--no-pivot").ok()
    assert "bin" in result.out.split()


def test_pivot_on_a_ramfs_like_root(container: MakeContainer, bundle: MakeBundle) -> None:
    """The host's own root is not touched by it."""
    before = (Path("/").stat().st_dev, os.readlink("/proc/self/root"))
    container().created()
    assert (Path("/").stat().st_dev, os.readlink("/proc/self/root")) == before


@pytest.mark.parametrize("fstype", ["cgroup", "cgroup2"])
def test_cgroup_mount(container: MakeContainer, bundle: MakeBundle, fstype: str) -> None:
    """Each hierarchy with the container's own directory as its root."""
    one = bundle().namespace("cgroup")
    one.mount("/sys/fs/cgroup", fstype, "cgroup", "nosuid", "noexec", "nodev", "relatime", "ro")
    made = container(one)
    made.create().silent()
    table = mounts_of(made)
    found = [m for target, m in table.items() if m.fstype in {"cgroup", "cgroup2"}]
    assert found
    for entry in found:
        assert entry.target.startswith("/sys/fs/cgroup")
        assert "ro" in entry.options
        assert entry.root.endswith(made.id)


def test_missing_bind_source(container: MakeContainer, bundle: MakeBundle) -> None:
    container(bundle().bind("/no/such/source", "/data")).create().failed("/no/such/source")


@deviates(runc="names the source alone")
def test_unknown_file_system(container: MakeContainer, bundle: MakeBundle) -> None:
    container(bundle().mount("/data", "nofs", "x")).create().failed("nofs")


def test_mount_over_a_file_of_the_wrong_kind(
    container: MakeContainer, bundle: MakeBundle, work: Path
) -> None:
    """A directory cannot cover a file."""
    container(bundle().bind(work, "/etc/passwd")).create().failed("/etc/passwd")


def test_sysctl(container: MakeContainer, bundle: MakeBundle) -> None:
    one = bundle().shell(
        "cat /proc/sys/net/ipv4/ip_forward /proc/sys/kernel/msgmax /proc/sys/kernel/domainname"
    )
    settings: dict[str, Any] = {
        "net.ipv4.ip_forward": "1",
        "kernel.msgmax": "65536",
        "kernel.domainname": "example.org",
    }
    one.linux["sysctl"] = settings
    assert container(one).run().ok().out == "1\n65536\nexample.org\n"


@pytest.mark.parametrize(
    ("name", "without"), [("vm.swappiness", ""), ("net.ipv4.ip_forward", "network")]
)
def test_sysctl_of_the_host_is_refused(
    container: MakeContainer, bundle: MakeBundle, name: str, without: str
) -> None:
    """A-82: only what a namespace of the container separates."""
    one = bundle().without_namespace(without)
    one.linux["sysctl"] = {name: "1"}
    container(one).create().failed(name)
