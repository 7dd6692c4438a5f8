"""Each reader of a mountinfo, with a mount point that holds what str.splitlines() splits at."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ociruntime.base.kernel_mounts import find_kernel_mounts
from ociruntime.base.paths import mount_lines
from ociruntime.pods.garbage.sweep import mounts_below
from ociruntime.runtime.cgroups import layout
from ociruntime.runtime.host.namespace_limits import obstacle
from ociruntime.runtime.lifecycle.checkpoint import external_mounts

EPERM = 1
SEPARATORS = "\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
ROOT = "21 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n"
MOUNT = "22 21 0:40 / /pod/a{0}b rw,nosuid - tmpfs t rw,size=64k\n"
GROUPS = "23 21 0:41 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"


# What each of them makes of the text, and what it has to be.
READERS: dict[str, tuple[Callable[[str], object], Callable[[str], object]]] = {
    "groups": (
        lambda text: [mount.mountpoint for mount in layout.parse_mountinfo(text)],
        lambda _: ["/sys/fs/cgroup"],
    ),
    "of the kernel": (lambda text: find_kernel_mounts(text, "/rootfs"), lambda _: ()),
    "of a pod": (lambda text: mounts_below("/pod", text), lambda between: [f"/pod/a{between}b"]),
    "of a container": (
        lambda text: [mount.target for mount in external_mounts.parse_mountinfo(text)],
        lambda between: ["/", f"/pod/a{between}b", "/sys/fs/cgroup"],
    ),
    "chroot": (
        lambda text: obstacle(EPERM, lambda name: text if name == "self/mountinfo" else ""),
        lambda _: "",
    ),
    "lines": (lambda text: len(mount_lines(text)), lambda _: 3),
}


@pytest.mark.parametrize("between", SEPARATORS, ids=ascii)
@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_a_mount_point_with_ends_of_lines(
    between: str, reader: tuple[Callable[[str], object], Callable[[str], object]]
) -> None:
    read, expected = reader
    assert read(ROOT + MOUNT.format(between) + GROUPS) == expected(between)
