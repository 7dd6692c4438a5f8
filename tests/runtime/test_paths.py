"""Masked and read-only paths, and links in the root that try to lead out of it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.support.bundle import Bundle
from tests.support.peers import deviates
from tests.support.plugin import MakeBundle, MakeContainer
from tests.support.refusal import is_refused, needs_mount_api


def test_masked_file_and_directory(container: MakeContainer, bundle: MakeBundle) -> None:
    """LNX-MASK-02: a file reads empty, a directory is empty; missing paths are skipped."""
    one = bundle().shell("wc -c < /secret; ls -A /hidden; touch /hidden/x")
    (one.rootfs / "secret").write_text("secret\n")
    (one.rootfs / "hidden").mkdir()
    (one.rootfs / "hidden" / "name").write_text("")
    one.linux["maskedPaths"] = ["/secret", "/hidden", "/not/there"]
    result = container(one).run()
    assert result.out == "0\n"
    assert result.status == 1
    assert "Read-only" in result.err


@deviates(runc="a filesystem for each", crun="a filesystem for each, and two mounts")
@needs_mount_api("each masked directory has a filesystem of its own without it")
def test_masked_directories_share_a_filesystem(
    container: MakeContainer, bundle: MakeBundle
) -> None:
    """One superblock for all, and one mount for a path listed twice."""
    one = bundle().shell("stat -c %d /one /two; grep -c ' /two ' /proc/self/mountinfo; ls /two")
    for name in ("one", "two"):
        (one.rootfs / name).mkdir()
        (one.rootfs / name / "file").touch()
    one.linux["maskedPaths"] = ["/one", "/two", "/two/", "/one"]
    first, second, count = container(one).run().ok().out.split()
    assert first == second
    assert count == "1"


def test_masked_proc_files(container: MakeContainer, bundle: MakeBundle) -> None:
    one = bundle().shell("wc -c < /proc/timer_list; wc -c < /proc/keys")
    assert container(one).run().ok().out == "0\n0\n"


def test_read_only_paths(container: MakeContainer, bundle: MakeBundle) -> None:
    """LNX-RO-02."""
    one = bundle().shell(
        "cat /frozen/name; echo x > /frozen/name; echo 1 > /proc/sys/kernel/msgmax"
    )
    (one.rootfs / "frozen").mkdir()
    (one.rootfs / "frozen" / "name").write_text("kept\n")
    one.linux["readonlyPaths"] = ["/frozen", "/proc/sys", "/not/there"]
    result = container(one).run()
    assert result.out == "kept\n"
    assert result.err.count("Read-only file system") == 2
    assert (one.rootfs / "frozen" / "name").read_text() == "kept\n"


def test_relative_paths_count_from_the_root(container: MakeContainer, bundle: MakeBundle) -> None:
    """LNX-MASK-01 and LNX-RO-01 require absolute ones; runc and crun accept these."""
    one = bundle().shell("wc -c < /secret; echo x > /frozen").without_namespace("cgroup")
    (one.rootfs / "secret").write_text("secret\n")
    (one.rootfs / "frozen").write_text("")
    one.linux["maskedPaths"] = ["secret"]
    one.linux["readonlyPaths"] = ["frozen"]
    result = container(one).run()
    assert "0\n" in result.out
    assert "Read-only" in result.err


class Canary:
    """A tree on the host that must not change."""

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir()
        (place / "file").write_text("untouched\n")
        (place / "sub").mkdir()
        self._before = self.look()

    def look(self) -> list[tuple[str, int, int, int, bytes]]:
        """Return owner, mode and content of all files below."""
        found = []
        for top, directories, files in os.walk(self.place):
            for name in [*directories, *files]:
                path = Path(top, name)
                info = path.lstat()
                content = path.read_bytes() if path.is_file() else b""
                found.append((str(path), info.st_mode, info.st_uid, info.st_ino, content))
        return sorted(found)

    def check(self) -> None:
        assert self.look() == self._before


@pytest.fixture
def canary(work: Path) -> Canary:
    return Canary(work / "canary")


def outside(bundle: Bundle, canary: Canary, how: str) -> str:
    """A link target that leads to the canary if it is followed on the host."""
    if how == "absolute":
        return str(canary.place)
    return "../" * 12 + str(canary.place).lstrip("/")


HOW = pytest.mark.parametrize("how", ["absolute", "dots"])


def create_and_end(container: MakeContainer, bundle: Bundle) -> None:
    """Create and delete: the path may be refused or resolved in the root; both are safe."""
    made = container(bundle)
    if made.create().status == 0:
        made.start()
        made.delete("--force").ok()


@HOW
def test_mount_point_below_a_link(
    container: MakeContainer, bundle: MakeBundle, canary: Canary, how: str
) -> None:
    """It is created where the link leads inside the root (CVE-2019-19921)."""
    one = bundle("touch", "/link/sub/written").mount("/link/sub", "tmpfs", "t")
    (one.rootfs / "link").symlink_to(outside(one, canary, how))
    create_and_end(container, one)
    canary.check()
    assert not (canary.place / "sub" / "written").exists()


@HOW
def test_mount_point_is_a_link(
    container: MakeContainer, bundle: MakeBundle, canary: Canary, how: str, work: Path
) -> None:
    (work / "source").mkdir()
    one = bundle("touch", "/link/written").bind(work / "source", "/link")
    (one.rootfs / "link").symlink_to(outside(one, canary, how))
    create_and_end(container, one)
    canary.check()


@HOW
def test_file_mount_point_is_a_link(
    container: MakeContainer, bundle: MakeBundle, canary: Canary, how: str, work: Path
) -> None:
    """A missing file would be created at the link's target."""
    (work / "source").write_text("x")
    one = bundle().bind(work / "source", "/link", "bind")
    (one.rootfs / "link").symlink_to(f"{outside(one, canary, how)}/made")
    create_and_end(container, one)
    canary.check()


@HOW
@deviates(runc="1.1 makes the links on the host")
def test_dev_is_a_link(
    container: MakeContainer, bundle: MakeBundle, canary: Canary, how: str
) -> None:
    """Nodes and links would be created on the host."""
    one = bundle()
    shutil.rmtree(one.rootfs / "dev")
    (one.rootfs / "dev").symlink_to(outside(one, canary, how))
    create_and_end(container, one)
    canary.check()


@HOW
@deviates(runc="1.1 makes the links on the host")
def test_dev_is_a_link_and_not_mounted(
    container: MakeContainer, bundle: MakeBundle, canary: Canary, how: str
) -> None:
    one = bundle()
    one.config["mounts"] = [m for m in one.config["mounts"] if m["destination"] == "/proc"]
    shutil.rmtree(one.rootfs / "dev")
    (one.rootfs / "dev").symlink_to(outside(one, canary, how))
    create_and_end(container, one)
    canary.check()


@HOW
def test_device_below_a_link(
    container: MakeContainer, bundle: MakeBundle, canary: Canary, how: str
) -> None:
    one = bundle()
    one.linux["devices"] = [
        {"path": "/link/node", "type": "c", "major": 1, "minor": 3, "fileMode": 0o666}
    ]
    (one.rootfs / "link").symlink_to(outside(one, canary, how))
    create_and_end(container, one)
    canary.check()


@pytest.mark.parametrize("target", ["tmp", "/tmp", "../../tmp"])
def test_proc_is_a_link(container: MakeContainer, bundle: MakeBundle, target: str) -> None:
    """A fake /proc would swallow writes (labels, sysctls): refused."""
    one = bundle()
    (one.rootfs / "proc").rmdir()
    (one.rootfs / "proc").symlink_to(target)
    container(one).create().failed("proc")


def test_proc_of_another_kind(container: MakeContainer, bundle: MakeBundle) -> None:
    """A tmpfs in place of procfs is not written to."""
    one = bundle()
    one.config["mounts"][0] = {"destination": "/proc", "type": "tmpfs", "source": "t"}
    one.linux["sysctl"] = {"kernel.msgmax": "65536"}
    assert container(one).create().status == 1


@HOW
def test_masked_path_is_a_link(
    container: MakeContainer, bundle: MakeBundle, canary: Canary, how: str
) -> None:
    """The mask is inside, if anywhere (CVE-2025-31133)."""
    one = bundle("true")
    (one.rootfs / "link").symlink_to(outside(one, canary, how))
    one.linux["maskedPaths"] = ["/link", "/link/file"]
    one.linux["readonlyPaths"] = ["/link/sub"]
    create_and_end(container, one)
    canary.check()


@HOW
def test_working_directory_is_a_link(
    container: MakeContainer, bundle: MakeBundle, canary: Canary, how: str
) -> None:
    one = bundle("touch", "written")
    (one.rootfs / "link").symlink_to(outside(one, canary, how))
    one.process["cwd"] = "/link/made"
    create_and_end(container, one)
    canary.check()


@HOW
def test_masked_source_null_is_a_link(
    container: MakeContainer, bundle: MakeBundle, canary: Canary, how: str
) -> None:
    """The image's /dev/null must not become the mask's source (CVE-2025-31133)."""
    one = bundle("true")
    one.config["mounts"] = [m for m in one.config["mounts"] if m["destination"] == "/proc"]
    (one.rootfs / "dev" / "null").symlink_to(f"{outside(one, canary, how)}/file")
    create_and_end(container, one)
    canary.check()


def test_root_is_not_writable_through_its_parent(
    container: MakeContainer, bundle: MakeBundle, work: Path
) -> None:
    """`..` of the root is the root."""
    one = bundle().shell("ls -id / /.. /../.. | awk '{print $1}' | sort -u | wc -l")
    assert container(one).run().ok().out == "1\n"


def test_no_way_to_the_host_by_descriptors(container: MakeContainer, bundle: MakeBundle) -> None:
    """CVE-2024-21626: neither a descriptor nor the working directory leads out."""
    for number in range(3, 12):
        one = bundle().shell("pwd; ls")
        one.process["cwd"] = f"/proc/self/fd/{number}"
        made = container(one)
        result = made.run()
        assert "rootfs" not in result.out, result
        # Without openat2(2) the text of such a link is followed, in the container's root.
        assert result.status != 0 or is_refused("openat2"), result
