"""Pods on a full disk: the error is reported, and nothing is left behind."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tests.pods.endings import state
from tests.support import isolation
from tests.support.ocipod import Ocipod
from tests.support.pod_images import busybox, shell

MS_REMOUNT = 32


class Disk:
    """A small filesystem at ``path``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(exist_ok=True)
        isolation.mount("none", str(path), "tmpfs", data="size=64m,mode=755")

    def used(self) -> int:
        """Return the files and directories on the disk."""
        numbers = os.statvfs(self.path)
        return numbers.f_files - numbers.f_ffree

    def leave_room_for(self, files: int) -> None:
        data = f"nr_inodes={self.used() + files}"
        isolation.mount("none", str(self.path), "tmpfs", MS_REMOUNT, data)

    def fill(self) -> None:
        """Fill the disk: files can be created, but not written."""
        with (self.path / "large").open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(1 << 16)):
                pass


@pytest.fixture
def disk(ocipod: Ocipod) -> Iterator[Disk]:
    """The filesystem of the pods and images of ``ocipod``."""
    yield Disk(ocipod.directory)
    ocipod.finish()
    isolation.unmount(str(ocipod.directory))


@pytest.mark.parametrize(
    ("command", "rooms", "texts"),
    [
        ("prepare", (7, 13, 16, 17, 18), ("prepare pod", "the image has", "write pod of pod")),
        (
            "app sandbox",
            range(8),
            ("create the pod's", "create the lock", "prepare pod"),
        ),
    ],
)
def test_a_pod_without_room_for_all_its_files(
    ocipod: Ocipod, work: Path, disk: Disk, command: str, rooms: Sequence[int], texts: Sequence[str]
) -> None:
    words = {"prepare": ("--quiet", busybox(work)), "app sandbox": ("--net=none", "--detach")}
    ocipod("prepare", "--quiet", busybox(work)).ok()
    ocipod("gc", "--expire-prepared=0s").ok()
    before = disk.used()
    said = ""
    for files in rooms:
        disk.leave_room_for(files)
        said += ocipod(*command.split(), *words[command]).failed("no space left on device").err
        assert ocipod.pods() == []
        assert disk.used() == before
    for text in texts:
        assert f"ocipod: {text}" in said


def test_the_end_of_a_pod_without_room(ocipod: Ocipod, work: Path, disk: Disk) -> None:
    """It stops as requested, although no record of that can be written."""
    words = ("run", "--detach", "--net=none", busybox(work), "--name=a", *shell("exec sleep 60"))
    uuid = ocipod(*words).ok().out.strip()
    disk.fill()
    ocipod("stop", "--wait", uuid).ok()
    assert ocipod.state(uuid) == "exited"
    assert state(ocipod, uuid, "a")["state"] == "running", "no process could write more"
    assert not (ocipod.path(uuid) / "exit").exists()
    (disk.path / "large").unlink()
