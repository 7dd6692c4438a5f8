"""Attacks on `delete`, which unmounts, by a container that shares the host's mount namespace."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support import isolation
from tests.support.host_mounts import ADMIN, below, on_host
from tests.support.peers import judge_by
from tests.support.plugin import MakeBundle, MakeContainer

pytestmark = judge_by("ociruntime")


@pytest.mark.parametrize(
    "script",
    [
        "mv /a /c; mkdir -p /a/b",
        "mv /a /c; ln -s / /a",
        "mv /a /c; ln -s /proc /a",
        "mv /dev /c; ln -s /etc /dev",
        "cd /a/b; sleep 1000 </dev/null >/dev/null 2>&1 &",
    ],
)
def test_renamed_and_busy_directories(
    container: MakeContainer, bundle: MakeBundle, script: str
) -> None:
    made = on_host(bundle()).mount("/a/b", "tmpfs", "tmpfs")
    before = Path("/proc/self/mountinfo").read_text()
    one = container(made).started()
    one.exec("sh", "-c", script).ok()
    one.delete("--force").ok()
    assert Path("/proc/self/mountinfo").read_text() == before


@pytest.mark.parametrize(
    "script",
    [
        "mount -t tmpfs tmpfs /",
        "mount -t tmpfs tmpfs /a",
        "mount -t tmpfs tmpfs /a/b; mount -t tmpfs tmpfs /a/b",
        "umount -l /a/b",
        "umount -l /",
        "mkdir /c; mount --move /a/b /c",
        "mount --bind / /a/b",
        "mount --rbind / /c; mount --rbind / /a",
        "mount --make-rshared /; mount -t tmpfs tmpfs /a",
    ],
)
def test_mounts_of_a_container_that_may_mount(
    container: MakeContainer, bundle: MakeBundle, script: str
) -> None:
    made = on_host(bundle()).mount("/a/b", "tmpfs", "tmpfs").capabilities(*ADMIN)
    (made.rootfs / "c").mkdir()
    before = Path("/proc/self/mountinfo").read_text()
    one = container(made).started()
    one.exec("sh", "-c", script).ok()
    one.delete("--force").ok()
    assert Path("/proc/self/mountinfo").read_text() == before


def test_a_mount_of_the_host_is_kept_below_the_root(
    container: MakeContainer, bundle: MakeBundle, work: Path
) -> None:
    """Its directory has been replaced with a link to the host before it is attached again."""
    victim = work / "victim"
    victim.mkdir()
    made = on_host(bundle())
    (made.rootfs / "data" / "deep").mkdir(parents=True)
    one = container(made).started()
    isolation.mount("tmpfs", str(made.rootfs / "data" / "deep"), "tmpfs")
    one.exec("sh", "-c", f"mv /data /moved; ln -s {victim} /data").ok()
    one.delete("--force").ok()
    assert below(victim) == []
    assert below(work) == [str(made.rootfs / "moved" / "deep")]
    isolation.unmount(str(made.rootfs / "moved" / "deep"))


def test_a_root_file_system_with_links(
    container: MakeContainer, bundle: MakeBundle, work: Path
) -> None:
    """Every mount stays below the root filesystem."""
    victim = work / "victim"
    victim.mkdir()
    made = on_host(bundle())
    (made.rootfs / "link").symlink_to(victim)
    (made.rootfs / "up").symlink_to("../../../../../../../../etc")
    made.mount("/link/x", "tmpfs", "tmpfs").mount("/up/y", "tmpfs", "tmpfs")
    one = container(made).started()
    points = below(Path("/"))
    assert not [point for point in points if point.startswith((str(victim), "/etc/y"))]
    one.delete("--force").ok()
    assert below(made.rootfs) == []


def test_a_process_that_survives_in_the_mount(container: MakeContainer, bundle: MakeBundle) -> None:
    """A process of the host that keeps a mount busy does not keep it visible."""
    made = on_host(bundle()).mount("/a/b", "tmpfs", "tmpfs")
    one = container(made).started()
    busy = subprocess.Popen(["sleep", "1000"], cwd=made.rootfs / "a" / "b")
    try:
        one.delete("--force").ok()
        assert below(made.rootfs) == []
    finally:
        busy.kill()
        busy.wait()
