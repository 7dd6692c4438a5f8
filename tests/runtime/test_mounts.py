"""Mounts of every kind that engines use, their options, and the root filesystem."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import isolation, project
from tests.support.mounts import mounts_of, seen
from tests.support.peers import deviates
from tests.support.plugin import MakeBundle, MakeContainer
from tests.support.refusal import needs_mount_api

# Takes the root off a process's mount namespace and looks at what is then the root there.
LOOK_BELOW = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
namespace = os.open(f"/proc/{sys.argv[1]}/ns/mnt", os.O_RDONLY)
assert libc.setns(namespace, 0x20000) == 0
assert libc.umount2(b"/", 2) == 0
assert libc.setns(namespace, 0x20000) == 0
def bare(path):  # what the file system of / has there, or nothing
    return os.stat(path).st_dev == os.stat("/").st_dev or not os.listdir(path)
print(os.path.isdir(sys.argv[2]), bare("/proc"), bare("/sys"))
"""


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
    """After pivot_root, the old tree is gone: only configured mounts exist."""
    table = mounts_of(container().created())
    outside = {"/", "/proc", "/dev", "/sys"}
    for target in table:
        assert target in outside or target.startswith(("/dev/", "/proc/", "/sys/")), target


def test_bind_directory_and_file(container: MakeContainer, bundle: MakeBundle, work: Path) -> None:
    """Mount points are created, as a directory or as a file."""
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
    """A bind mount gets its flags in a second call."""
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
@pytest.mark.parametrize("words", [("rro", "rw"), ("rw", "rro")])
@needs_mount_api("attributes of all mounts below")
def test_recursive_read_only_beside_writable(
    container: MakeContainer, bundle: MakeBundle, work: Path, words: tuple[str, str]
) -> None:
    """A recursive read-only option applies to the whole tree, including the topmost mount."""
    source = work / "source"
    (source / "sub").mkdir(parents=True)
    isolation.mount("tmpfs", str(source / "sub"), "tmpfs")
    mounts = mounts_of(container(bundle().bind(source, "/data", *words)).created())
    isolation.unmount(str(source / "sub"))
    assert "ro" in mounts["/data"].options
    assert "ro" in mounts["/data/sub"].options


@deviates(runc="only the top")
@needs_mount_api("attributes of all mounts below")
def test_recursive_read_only(container: MakeContainer, bundle: MakeBundle, work: Path) -> None:
    """CFG-MOPT rro: including the mounts below."""
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
    """A-46: they must be accepted."""
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
    """In the listed order: the second hides the first, the third is in the second."""
    (work / "dir").mkdir()
    (work / "dir" / "name").write_text("bind\n")
    one = bundle().shell("ls /data; cat /data/sub/name")
    one.mount("/data", "tmpfs", "one").mount("/data", "tmpfs", "two")
    one.bind(work / "dir", "/data/sub")
    assert container(one).run().ok().out == "sub\nbind\n"


@deviates(runc="warns")
def test_relative_destination(container: MakeContainer, bundle: MakeBundle) -> None:
    """Allowed again since 1.2: relative to the root."""
    assert seen(container, bundle().mount("data", "tmpfs", "t"), "/data").fstype == "tmpfs"


@pytest.mark.parametrize("propagation", [None, "shared"])
def test_a_source_below_the_root_shows_earlier_mounts(
    container: MakeContainer, bundle: MakeBundle, propagation: str | None
) -> None:
    """The source's path on the host leads through the container's root."""
    one = bundle().shell("echo x > /a/file; cat /b/file")
    for name in ("a", "b"):
        (one.rootfs / name).mkdir()
    one.mount("/a", "tmpfs", "tmpfs").bind(one.rootfs / "a", "/b")
    if propagation:
        one.linux["rootfsPropagation"] = propagation
    assert container(one).run().ok().out == "x\n"


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


@pytest.mark.parametrize("user_namespace", [False, True], ids=["", "user namespace"])
@deviates(crun="leaves the host's")
def test_no_pivot_leaves_no_proc_of_the_host(
    container: MakeContainer, bundle: MakeBundle, user_namespace: bool
) -> None:
    """The old root stays below the new one: its procfs would expose the host's files."""
    one = bundle()
    if user_namespace:
        one.user_namespace()
    made = container(one).created("--no-pivot")
    command = [sys.executable, "-c", LOOK_BELOW, str(made.pid), str(project.ROOT)]
    below = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert below == "True True True\n"


def test_pivot_on_a_ramfs_like_root(container: MakeContainer, bundle: MakeBundle) -> None:
    """The host's own root is not changed."""
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
    """A-82: only sysctls of the container's own namespaces."""
    one = bundle().without_namespace(without)
    one.linux["sysctl"] = {name: "1"}
    container(one).create().failed(name)
