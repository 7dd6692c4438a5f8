"""Targets are resolved inside the root, whatever the image's links are and even while they move."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ociruntime.base.linux import S_IFCHR
from ociruntime.runtime.plan import operation_constructors as o
from ociruntime.runtime.plan.operation_table import MOUNT_REAL_DIRECTORY, NO_SLOT
from ociruntime.runtime.plan.plan import Operation
from tests.support import executor, rootfs
from tests.support.executor import before, plan_of, run
from tests.support.leaks import mount_table

pytestmark = pytest.mark.usefixtures("nothing_left", "each_build", "each_kernel")

NAME = "n" * 255
CHAIN = {f"l{i}": f"l{i + 1}" for i in range(39)}
UP = "../" * 30

# name: (links as path -> text, target, where that is in the root or the errno)
CASES: dict[str, tuple[dict[str, str], str, str | int]] = {
    "plain": ({}, "/a/b/c", "a/b/c"),
    "slashes": ({}, "//a///b//c", "a/b/c"),
    "dots": ({}, "/a/./b/../c", "a/c"),
    "above the root": ({}, "/../../a", "a"),
    "longest name": ({}, f"/{NAME}/{NAME}", f"{NAME}/{NAME}"),
    "name too long": ({}, f"/{NAME}n", errno.ENAMETOOLONG),
    "name too long below a missing directory": ({}, f"/a/{NAME}n", errno.ENAMETOOLONG),
    "name too long in the middle": ({}, f"/a/{NAME}n/b", errno.ENAMETOOLONG),
    "path too long": ({}, "/a" * 2048, errno.ENAMETOOLONG),
    "absolute link": ({"l": "/tmp"}, "/l/a", "tmp/a"),
    "relative link": ({"usr/l": "../tmp"}, "/usr/l/a", "tmp/a"),
    "dangling": ({"l": "/none/deep"}, "/l/a", "none/deep/a"),
    "dangling at the end": ({"l": "none"}, "/l", "none"),
    "relative above the root": ({"usr/l": f"{UP}none"}, "/usr/l/a", "none/a"),
    "absolute above the root": ({"l": f"/{UP}none"}, "/l/a", "none/a"),
    "link over a link": ({"l": "/m/x", "m": "tmp"}, "/l/a", "tmp/x/a"),
    "link with dots behind a missing directory": ({"l": "none/../x"}, "/l/a", "x/a"),
    "link to the root": ({"l": "/"}, "/l/a", "a"),
    "link to itself by a dot": ({"usr/l": "."}, "/usr/l/a", "usr/a"),
    "link with a slash at its end": ({"l": "none/"}, "/l/a", "none/a"),
    "40 links": ({**CHAIN, "l39": "none"}, "/l0", "none"),
    "40 links and what is behind": ({**CHAIN, "l39": "none"}, "/l0/a", "none/a"),
    "41 links": ({**CHAIN, "l39": "l40", "l40": "none"}, "/l0", errno.ELOOP),
    "loop": ({"l": "l"}, "/l/a", errno.ELOOP),
    "loop of two": ({"l": "m", "m": "l"}, "/l", errno.ELOOP),
    "long link": ({"l": "x/../" * 800}, f"/l/{NAME}", errno.ENAMETOOLONG),
    "below a file": ({}, "/etc/passwd/a", errno.ENOTDIR),
    "far below a file": ({}, "/etc/passwd/a/b", errno.ENOTDIR),
    "below a link to a file": ({"l": "etc/passwd"}, "/l/a", errno.ENOTDIR),
    "magic link that is none": ({"l": "/proc/self/root"}, "/l/a", "proc/self/root/a"),
}  # fmt: skip


class Canary:
    """A tree beside the root that nothing may change, and the mounts around it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        (place / "directory").mkdir(parents=True)
        (place / "file").write_text("untouched\n")
        self._before = self._look()

    def _look(self) -> tuple[list[tuple[str | int, ...]], dict[str, str]]:
        found: list[tuple[str | int, ...]] = []
        for top, directories, files in os.walk(self.place):
            for name in (".", *directories, *files):
                info = os.lstat(f"{top}/{name}")
                facts = (info.st_ino, info.st_mode, info.st_uid, info.st_size, info.st_mtime_ns)
                found.append((f"{top}/{name}", *facts))
        return found, mount_table()

    def check(self) -> None:
        assert self._look() == self._before


@pytest.fixture
def canary(work: Path) -> Iterator[Canary]:
    one = Canary(work / "canary")
    yield one
    one.check()


@pytest.fixture
def root(work: Path, programs: dict[str, Path], canary: Canary) -> Path:
    path = work / "root"
    rootfs.build(path, programs)
    return path


def mkdir(target: str) -> Operation:
    return o.mkdir(target=target, mode=0o755)


def bind(source: Path, target: str) -> Operation:
    return o.bind(
        slot=NO_SLOT, source=str(source), target=target, recursive=0, set_attributes=0,
        clear_attributes=0, set_recursive=0, clear_recursive=0, propagation=0, flags=0,
        id_map=NO_SLOT, id_map_recursive=0,
    )  # fmt: skip


def device(target: str) -> Operation:
    return o.device(target=target, mode=S_IFCHR | 0o666, major=1, minor=3, uid=0, gid=0, source="")


def tmpfs(target: str) -> Operation:
    return o.mount(
        fstype="tmpfs", source="t", target=target, options=["size=4k"], attributes=0,
        propagation=0, flags=0, id_map=NO_SLOT, label="",
    )  # fmt: skip


def lay(root: Path, links: dict[str, str]) -> None:
    for name, text in links.items():
        (root / name).symlink_to(text)


def error_of(root: Path, step: Operation) -> int:
    """The errno with which the step fails, 0 if it does not."""
    fact = run(plan_of(*before(root), step)).fact
    assert fact is not None
    return fact[2] if fact[0] == 3 else 0


@pytest.mark.parametrize("name", CASES)
def test_directory(root: Path, name: str) -> None:
    links, target, expected = CASES[name]
    lay(root, links)
    error = error_of(root, mkdir(target))
    if isinstance(expected, int):
        assert error == expected
    else:
        assert error == 0
        assert (root / expected).is_dir()
        assert not (root / expected).is_symlink()


@pytest.mark.parametrize("name", CASES)
def test_file(root: Path, canary: Canary, name: str) -> None:
    links, target, expected = CASES[name]
    lay(root, links)
    error = error_of(root, bind(canary.place / "file", target))
    if isinstance(expected, int):
        assert error == expected
    else:
        assert error == 0
        assert (root / expected).is_file()
        assert (root / expected).read_bytes() == b""


def test_file_where_a_directory_is(root: Path, canary: Canary) -> None:
    lay(root, {"l": "none/.."})
    for target in ("/tmp", "/", "/tmp/.", "/l"):
        assert error_of(root, bind(canary.place / "file", target)) == errno.EISDIR


@pytest.mark.parametrize("how", ["absolute", "relative"])
@pytest.mark.parametrize("make", [mkdir, device, tmpfs])
def test_link_to_the_host(root: Path, canary: Canary, how: str, make: object) -> None:
    """What looks like a way to the host is a path in the root."""
    text = str(canary.place) if how == "absolute" else UP + str(canary.place).lstrip("/")
    lay(root, {"l": text})
    assert callable(make)
    assert error_of(root, make("/l/new/x")) == 0
    assert (root / str(canary.place).lstrip("/") / "new").is_dir()


def test_magic_link(root: Path, canary: Canary) -> None:
    """With procfs mounted it would lead to the host's root (CVE-2026-87766)."""
    proc = o.mount(
        fstype="proc", source="proc", target="/proc", options=[], attributes=0, propagation=0,
        flags=0, id_map=NO_SLOT, label="",
    )  # fmt: skip
    lay(root, {"l": "/proc/self/root", "m": "/proc/self/fd"})
    for target in (f"/l{canary.place}/new", "/m/0/new", "/proc/self/cwd/new"):
        fact = run(plan_of(*before(root), proc, mkdir(target))).fact
        assert fact is not None
        # Without openat2(2) its text is followed, in the container's root, to the plan's end.
        end = (5, "read", errno.EBADMSG)
        assert fact[:3] == (end if executor.lacks("openat2") else (4, "mkdir", errno.ELOOP))


def test_dots_where_no_link_may_be(root: Path, canary: Canary) -> None:
    """The kernel stays in the root; without openat2(2) such a path is refused."""
    step = o.mount(
        fstype="tmpfs", source="t", target="/../canary/directory", options=[], attributes=0,
        propagation=0, flags=MOUNT_REAL_DIRECTORY, id_map=NO_SLOT, label="",
    )  # fmt: skip
    assert error_of(root, step) == (errno.EXDEV if executor.lacks("openat2") else 0)
    assert (root / "canary/directory").is_dir() != executor.lacks("openat2")


SWAP = """
import ctypes, sys, time
rename = ctypes.CDLL(None).renameat2
a, b = (name.encode() for name in sys.argv[1:])
print(flush=True)
while True:
    if rename(-100, a, -100, b, 2):
        sys.exit(1)
    time.sleep(0.0001)
"""


@pytest.fixture
def swapped(root: Path, canary: Canary) -> Iterator[Path]:
    """A directory of the root that changes places with a link to the canary all the time."""
    volume = root / "volume"
    (volume / "place" / "deep").mkdir(parents=True)
    (volume / "link").symlink_to(canary.place)
    names = [str(volume / "place"), str(volume / "link")]
    process = subprocess.Popen([sys.executable, "-c", SWAP, *names], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    yield volume
    running = process.poll() is None
    process.kill()
    process.wait()
    process.stdout.close()
    assert running, "the swapping ended early"


def racing_steps(canary: Canary, number: int) -> list[Operation]:
    """Names that no start before had: all of it has to be made."""
    place = "/volume/place"
    return [
        mkdir(f"{place}/a{number}/b"),
        bind(canary.place / "file", f"{place}/f{number}/f"),
        bind(canary.place, f"{place}/c{number}"),
        tmpfs(f"{place}/deep/t{number}"),
        device(f"{place}/null{number}"),
        o.symlink(target=f"{place}/s{number}", text="x", requires="", replace=1),
        o.mask(target=f"{place}/deep", context=""),
        o.readonly(target=f"{place}/a{number}"),
        o.pivot_root(),
        o.exec(args=["/bin/true"], env=[]),
    ]


@pytest.mark.parametrize("starts", [100, pytest.param(400, marks=pytest.mark.long)])
def test_exchanged_path(root: Path, swapped: Path, canary: Canary, starts: int) -> None:
    """CVE-2021-30465, CVE-2024-45310: each start races with the swap and stays inside."""
    refused = set[object]()
    through = 0
    # How often a start gets through depends on how busy the machine is.
    for number in range(4000):
        fact = run(plan_of(*before(root), *racing_steps(canary, number))).fact
        if fact:
            refused.add(fact[1:3])
        through += fact is None
        if number >= starts and through >= starts // 10 and refused:
            break
    assert refused <= {(call, errno.ELOOP) for call in ("open", "mkdir")}
    assert through >= starts // 10, "some must get through, or nothing was tried"
    assert refused, "some must hit the swap"
