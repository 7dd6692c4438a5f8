"""Each reader of a mountinfo, with a mount point that contains line separators."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ociruntime.base.mountinfo import find_kernel_mounts, parse_mountinfo, reachable, unescape
from ociruntime.pods.garbage.clean_up import mounts_below
from ociruntime.runtime.cgroups import hierarchies
from ociruntime.runtime.host.namespaces import obstacle

EPERM = 1
SEPARATORS = "\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
ROOT = "21 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n"
MOUNT = "22 21 0:40 / /pod/a{0}b rw,nosuid - tmpfs t rw,size=64k\n"
GROUPS = "23 21 0:41 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"


# What each of them makes of the text, and what it has to be.
READERS: dict[str, tuple[Callable[[str], object], Callable[[str], object]]] = {
    "groups": (
        lambda text: [mount.mountpoint for mount in hierarchies.cgroup_mounts(text)],
        lambda _: ["/sys/fs/cgroup"],
    ),
    "of the kernel": (lambda text: find_kernel_mounts(text, "/rootfs"), lambda _: ()),
    "of a pod": (lambda text: mounts_below("/pod", text), lambda between: [f"/pod/a{between}b"]),
    "of a container": (
        lambda text: [mount.target for mount in parse_mountinfo(text)],
        lambda between: ["/", f"/pod/a{between}b", "/sys/fs/cgroup"],
    ),
    "chroot": (
        lambda text: obstacle(EPERM, lambda name: text if name == "self/mountinfo" else ""),
        lambda _: "",
    ),
    "lines": (lambda text: len(parse_mountinfo(text)), lambda _: 3),
}


@pytest.mark.parametrize("between", SEPARATORS, ids=ascii)
@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_a_mount_point_with_ends_of_lines(
    between: str, reader: tuple[Callable[[str], object], Callable[[str], object]]
) -> None:
    read, expected = reader
    assert read(ROOT + MOUNT.format(between) + GROUPS) == expected(between)


def test_all_fields() -> None:
    line = r"36 35 98:0 /mnt1 /a\040b\134c rw,noatime master:1 - ext3 /dev/root rw,errors=continue"
    (mount,) = parse_mountinfo(f"{line}\nhalf a line\n")
    assert (mount.id, mount.device, mount.root, mount.target) == (36, "98:0", "/mnt1", "/a b\\c")
    assert (mount.fstype, mount.options) == ("ext3", "rw,noatime")
    assert mount.super_options == "rw,errors=continue"


@pytest.mark.parametrize("line", ["1 2 0:1 / - tmpfs t rw", "x 2 0:1 / /a rw - tmpfs t rw", " - "])
def test_malformed_lines_are_passed_over(line: str) -> None:
    (mount,) = parse_mountinfo(f"{line}\n{ROOT}")
    assert mount.target == "/"


def test_hidden_by_a_later_mount() -> None:
    lines = [
        "1 0 0:1 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu",
        "2 0 0:2 / /sys/fs/cgroup rw - tmpfs t rw",
        "3 0 0:3 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory",
        "4 0 0:4 / /other rw - cgroup2 cgroup2 rw",
        "5 0 0:5 / /other rw - tmpfs t rw",
    ]
    found = reachable(parse_mountinfo("\n".join(lines)), "cgroup", "cgroup2")
    assert [mount.target for mount in found] == ["/sys/fs/cgroup/memory"]


@pytest.mark.parametrize("field", ["\\", "\\0", "\\08", "a\\888b", "\\\\"])
def test_a_backslash_that_is_none_of_the_kernel_s(field: str) -> None:
    assert unescape(field) == field
