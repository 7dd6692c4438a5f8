from __future__ import annotations

from ociruntime.base.mountinfo import find_kernel_mounts

MOUNTINFO = """\
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
22 21 0:20 / /proc rw,nosuid shared:2 - proc proc rw
23 21 0:21 / /sys rw,nosuid - sysfs sysfs rw
24 23 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw
25 21 0:20 /sys /srv/a\\040b rw master:2 propagate_from:1 - proc proc rw
26 21 0:20 / /bundle/rootfs/proc rw - proc proc rw
27 21 0:20 / /bundle/rootfs-2/proc rw - proc proc rw
"""


def test_proc_and_sysfs_outside_the_root() -> None:
    found = find_kernel_mounts(MOUNTINFO, "/bundle/rootfs")
    assert found == ("/bundle/rootfs-2/proc", "/srv/a b", "/sys", "/proc")


def test_the_host_s_root() -> None:
    """All mounts are inside of it."""
    assert find_kernel_mounts(MOUNTINFO, "/") == ()
