"""Hierarchies as mountinfo and /proc/PID/cgroup tell of them."""

from __future__ import annotations

import errno
import os

import pytest

from ociruntime.base.errors import HostError
from ociruntime.runtime.cgroups import hierarchies
from ociruntime.runtime.cgroups.hierarchies import (
    Hierarchy,
    Layout,
    assemble,
    cgroup_mounts,
    parse_existing,
)

V1_MOUNTS = """\
31 23 0:28 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/systemd rw,nosuid shared:9 - cgroup cgroup rw,xattr,name=systemd
33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:10 master:3 - cgroup cgroup rw,cpu,cpuacct
34 31 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
35 23 0:40 / /mnt rw - ext4 /dev/sda1 rw
"""
V1_MEMBERSHIP = """\
12:rdma:/
4:memory:/user.slice
3:cpu,cpuacct:/
1:name=systemd:/user.slice/session-1.scope
"""
V2_MOUNT = "40 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n"


def layout_of(mountinfo: str, membership: str, unified: str = "") -> Layout:
    return assemble(cgroup_mounts(mountinfo), parse_existing(membership), tuple(unified.split()))


def test_no_further_line_by_a_name() -> None:
    """A user names the cgroup in which we are; the kernel escapes only line feeds."""
    for odd in "\v\f\x1c\x85\u2028\r":
        assert parse_existing(f"4:memory:/user{odd}3:cpu:/\n") == [("memory",)]
    assert parse_existing("\xb2:memory:/\n\u0663:cpu:/\n") == []


def shown(hierarchy: Hierarchy) -> tuple[str, str, int]:
    return (hierarchy.option, hierarchy.mountpoint, hierarchy.version)


def test_v1_with_a_named_hierarchy_and_joint_controllers() -> None:
    layout = layout_of(V1_MOUNTS, V1_MEMBERSHIP)
    assert layout.mode == "v1"
    assert [shown(each) for each in layout.hierarchies] == [
        ("name=systemd", "/sys/fs/cgroup/systemd", 1),
        ("cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct", 1),
        ("memory", "/sys/fs/cgroup/memory", 1),
    ]
    assert layout.hierarchies[0].controllers == ()
    assert layout.hierarchies[0].name == "systemd"
    assert layout.hierarchies[1].controllers == ("cpu", "cpuacct")


def test_hybrid_has_the_unified_hierarchy_last_with_the_controllers_left_to_it() -> None:
    layout = layout_of(V1_MOUNTS + V2_MOUNT, V1_MEMBERSHIP + "0::/user.slice\n", "hugetlb misc\n")
    assert layout.mode == "hybrid"
    assert shown(layout.hierarchies[-1]) == ("", "/sys/fs/cgroup/unified", 2)
    assert layout.hierarchies[-1].controllers == ("hugetlb", "misc")


def test_v2() -> None:
    mounts = "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup rw\n"
    layout = layout_of(mounts, "0::/system.slice/x.service\n", "cpu io memory pids")
    assert layout.mode == "v2"
    assert [shown(each) for each in layout.hierarchies] == [("", "/sys/fs/cgroup", 2)]


def test_a_later_mount_hides_what_is_below() -> None:
    """A test or a nested engine has mounted cgroup v2 over all of v1."""
    over = "60 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
    layout = layout_of(V1_MOUNTS + V2_MOUNT + over, V1_MEMBERSHIP + "0::/\n", "hugetlb")
    assert [shown(each) for each in layout.hierarchies] == [("", "/sys/fs/cgroup", 2)]
    elsewhere = "60 23 0:38 / /mnt rw - tmpfs tmpfs rw\n"
    assert len(layout_of(V1_MOUNTS + elsewhere, V1_MEMBERSHIP).hierarchies) == 3


def test_no_cgroups_at_all() -> None:
    layout = layout_of("35 23 0:40 / / rw - ext4 /dev/sda1 rw\n", "")
    assert (layout.mode, layout.hierarchies) == ("v1", ())


def test_mounts_of_running_containers_do_not_count() -> None:
    stray = "90 80 0:31 /x /var/lib/c/rootfs/sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
    layout = layout_of(stray + V1_MOUNTS, V1_MEMBERSHIP)
    assert layout.hierarchies[2].mountpoint == "/sys/fs/cgroup/memory"


def test_a_later_mount_hides_an_earlier_one() -> None:
    over = "99 34 0:50 / /sys/fs/cgroup/memory rw - tmpfs tmpfs rw\n"
    options = [each.option for each in layout_of(V1_MOUNTS + over, V1_MEMBERSHIP).hierarchies]
    assert options == ["name=systemd", "cpu,cpuacct"]


def test_octal_escapes_and_lines_without_meaning() -> None:
    mounts = "\ngarbage\n34 31 0:31 / /mnt/my\\040cgroups\\134x rw - cgroup cgroup rw,pids\n"
    layout = layout_of(mounts, "nonsense\n8:pids:/\n")
    assert layout.hierarchies[0].mountpoint == "/mnt/my cgroups\\x"


def test_record_keeps_all() -> None:
    first = layout_of(V1_MOUNTS, V1_MEMBERSHIP).hierarchies[0]
    again = Hierarchy.from_record(first.record())
    assert shown(again) == ("name=systemd", "/sys/fs/cgroup/systemd", 1)


def test_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that are missing, or that this user may not read, are empty; other errors are not."""
    files: dict[str, bytes | int] = {
        "/proc/self/mountinfo": V2_MOUNT.encode(),
        "/proc/self/cgroup": b"0::/\n",
        "/sys/fs/cgroup/unified/cgroup.controllers": b"cpu memory\n",
    }

    def read(path: str) -> bytes:
        content = files.get(path, errno.ENOENT)
        if isinstance(content, int):
            raise OSError(content, os.strerror(content), path)
        return content

    monkeypatch.setattr(hierarchies, "read_file", read)
    layout = hierarchies.detect()
    assert (layout.mode, layout.hierarchies[0].controllers) == ("v2", ("cpu", "memory"))
    files["/sys/fs/cgroup/unified/cgroup.controllers"] = errno.EACCES
    assert hierarchies.detect().hierarchies[0].controllers == ()
    files["/proc/self/mountinfo"] = V1_MOUNTS.encode()
    files["/proc/self/cgroup"] = V1_MEMBERSHIP.encode()
    assert hierarchies.detect().mode == "v1"
    files.clear()
    assert hierarchies.detect().hierarchies == ()
    files["/proc/self/mountinfo"] = errno.EMFILE
    with pytest.raises(HostError, match='"/proc/self/mountinfo": too many open files'):
        hierarchies.detect()
