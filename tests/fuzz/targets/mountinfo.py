"""/proc/PID/mountinfo: any text is parsed, and paths survive the kernel's escapes."""

from __future__ import annotations

import random
from collections.abc import Iterator

from ociruntime.base.mountinfo import find_kernel_mounts, parse_mountinfo, reachable
from ociruntime.runtime.cgroups.hierarchies import cgroup_mounts
from ociruntime.runtime.lifecycle.intel_rdt_groups import find_mountpoint
from tests.fuzz.mutation import change_lines
from tests.fuzz.target import Target, refusals
from tests.unit.runtime.cgroups.test_hierarchies import V1_MOUNTS, V2_MOUNT

_ESCAPED = {" ": "\\040", "\t": "\\011", "\n": "\\012", "\\": "\\134"}


def _escaped(path: str) -> str:
    """Return a path as the kernel writes it."""
    return "".join(_ESCAPED.get(letter, letter) for letter in path)


def _same_path(path: str) -> None:
    """Check that a line with this mount point is read as one mount with this mount point."""
    line = f"36 35 98:0 /root {_escaped(path)} rw,noatime shared:1 - ext3 /dev/root rw\n"
    (mount,) = parse_mountinfo(line)
    assert (mount.target, mount.root, mount.fstype, mount.id) == (path, "/root", "ext3", 36)


def run(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    with refusals():
        mounts = parse_mountinfo(text)
        assert len(mounts) <= text.count("\n") + 1
        shown = reachable(mounts, "cgroup", "cgroup2", "proc", "ext4")
        assert len({mount.target for mount in shown}) == len(shown)
        cgroup_mounts(text)
        find_kernel_mounts(text, "/root")
        find_mountpoint(text)
    _same_path("/" + text.replace("\0", ""))


def seeds() -> Iterator[bytes]:
    yield (V1_MOUNTS + V2_MOUNT).encode()
    yield b"25 1 0:23 / /sys/fs/cgroup/a\\040b rw - cgroup2 c rw\n26 25 0:2 / /p rw - proc p rw\n"
    yield b"30 1 0:24 / /sys/fs/resctrl rw - resctrl resctrl rw,mba_MBps\n"
    yield b"41 25 0:26 / /sys/fs/cgroup/m rw shared:3 - cgroup c rw,memory\n"


def mutate(data: bytes, rng: random.Random) -> bytes:
    return change_lines(data, rng, rng.choice((b"\n", b" ", b"\\")))


TARGET = Target(
    run,
    ("base/mountinfo.py",),
    seeds,
    mutate,
    (" - ", "\\040", "\\012", "\\134", "cgroup2", "proc", "/sys/fs/cgroup"),
)
