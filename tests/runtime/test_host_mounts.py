"""Without a mount namespace, mounts are made in the runtime's and removed with the container."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import isolation, processes
from tests.support.bundle import Bundle
from tests.support.host_mounts import ADMIN, below, on_host, unmount_below
from tests.support.peers import deviates, judge_by
from tests.support.plugin import MakeBundle, MakeContainer
from tests.support.refusal import needs_mount_api
from tests.support.runtime import Runtime

MOUNTS_OF_THE_HOST = needs_mount_api("mounts in the host's mount namespace")

MS_SHARED = 1 << 20
OURS = judge_by("ociruntime")
MOMENTS = [number * 0.0015 for number in range(28)]


@pytest.fixture
def swept(work: Path) -> Iterator[Path]:
    """The test's directory; peers leave their mounts below it."""
    yield work
    unmount_below(work)


@MOUNTS_OF_THE_HOST
def test_mounts_are_made(
    container: MakeContainer, bundle: MakeBundle, work: Path, swept: Path
) -> None:
    """config-linux.md, Namespaces: the container inherits the runtime's mount namespace."""
    (work / "source").mkdir()
    (work / "source" / "file").write_text("of the host")
    made = (
        on_host(bundle()).bind(work / "source", "/data").shell("cat /data/file; ls /proc/self/fd")
    )
    one = container(made)
    result = one.run().ok()
    assert result.out.startswith("of the host")
    assert ("level=warning" in result.err) == (one.runtime.kind == "ociruntime")


@deviates(runc="leaves the mounts", crun="leaves the mounts")
@MOUNTS_OF_THE_HOST
def test_delete_removes_them(
    container: MakeContainer, bundle: MakeBundle, work: Path, swept: Path
) -> None:
    made = on_host(bundle()).mount("/a/b", "tmpfs", "tmpfs")
    one = container(made).started()
    assert any(point.endswith("/a/b") for point in below(made.rootfs))
    one.exec("test", "-d", "/proc/self").ok()
    one.kill("KILL")
    one.wait()
    one.delete().ok()
    assert below(made.rootfs) == []
    assert (made.rootfs / "a" / "b").is_dir()


@OURS
@pytest.mark.parametrize("case", ["step", "hook", "program"])
def test_failures_remove_them(container: MakeContainer, bundle: MakeBundle, case: str) -> None:
    made = on_host(bundle())
    if case == "step":
        made.mount("/b", "nosuchfs", "none")
    elif case == "hook":
        made.hooks["createRuntime"] = [{"path": "/bin/false"}]
    else:
        made.args("/no/such")
    container(made).create().failed()
    assert below(made.rootfs) == []


@OURS
@pytest.mark.parametrize("clearing", ["delete", "create"])
def test_a_killed_create(container: MakeContainer, bundle: MakeBundle, clearing: str) -> None:
    one = container(on_host(bundle()).save())
    create = ("create", "--bundle", str(one.bundle.path), one.id)
    for moment in MOMENTS:
        process = one.runtime.popen(*create)
        try:
            process.wait(moment)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if clearing == "create":
            one.runtime(*create)
        one.runtime("delete", "--force", one.id).ok()
        assert below(one.bundle.rootfs) == [], moment
        assert not list(one.runtime.root.glob(f"*{one.id}*")), moment
    processes.reap_orphans()


@OURS
@MOUNTS_OF_THE_HOST
def test_the_root_is_read_only_and_paths_are_masked(
    container: MakeContainer, bundle: MakeBundle
) -> None:
    made = bundle().without_namespace("mount")
    made.config["root"]["readonly"] = True
    made.linux["maskedPaths"] = ["/proc/kcore", "/etc"]
    made.linux["readonlyPaths"] = ["/proc/sys"]
    made.shell(
        "touch /x 2>&1; ls /etc; cat /proc/kcore; echo 1 2>&1 >/proc/sys/kernel/panic; echo end"
    )
    result = container(made).run().ok()
    assert result.out.count("Read-only file system") + result.err.count("Read-only file") == 2
    assert result.out.splitlines()[-1] == "end"
    assert below(made.rootfs) == []
    (made.rootfs / "x").touch()


@OURS
@pytest.mark.parametrize("propagation", ["private", "slave", "shared", "rslave"])
@MOUNTS_OF_THE_HOST
def test_root_propagation_leaves_the_host_s_alone(
    container: MakeContainer, bundle: MakeBundle, shared: Path, propagation: str
) -> None:
    made = moved_to(on_host(bundle()), shared)
    made.linux["rootfsPropagation"] = propagation
    before = Path("/proc/self/mountinfo").read_text()
    one = container(made).started()
    one.delete("--force").ok()
    assert Path("/proc/self/mountinfo").read_text() == before


def moved_to(made: Bundle, place: Path) -> Bundle:
    shutil.copytree(made.rootfs, place / "rootfs", symlinks=True)
    made.config["root"]["path"] = str(place / "rootfs")
    made.rootfs = place / "rootfs"
    return made


@OURS
@pytest.mark.parametrize("busy", [False, True])
@MOUNTS_OF_THE_HOST
def test_other_namespaces_see_only_an_empty_copy_and_lose_it(
    container: MakeContainer, bundle: MakeBundle, shared: Path, busy: bool
) -> None:
    """A shared mount has copies elsewhere, where nothing may be left."""
    made = moved_to(on_host(bundle()), shared)
    inner = made.rootfs / "inner"
    inner.mkdir()
    isolation.mount("tmpfs", str(inner), "tmpfs")
    isolation.mount("none", str(inner), "", MS_SHARED)
    other = subprocess.Popen(
        ["unshare", "--mount", "--propagation=unchanged", "sh", "-c", "echo; exec sleep 1000"],
        stdout=subprocess.PIPE,
    )
    assert other.stdout
    try:
        other.stdout.readline()
        process = str(other.pid)
        before = [below(made.rootfs), below(made.rootfs, process)]
        one = container(made).started()
        assert len(below(made.rootfs, process)) <= len(before[1]) + 1
        fd = os.open(made.rootfs / "dev", os.O_RDONLY) if busy else -1
        one.delete("--force").ok()
        if busy:
            os.close(fd)
        assert [below(made.rootfs), below(made.rootfs, process)] == before
    finally:
        other.kill()
        other.wait()
        other.stdout.close()
        isolation.unmount(str(inner))


@OURS
@pytest.mark.parametrize("place", ["data", "dev/shm/new", "."])
@MOUNTS_OF_THE_HOST
def test_what_the_host_mounts_inside_stays(
    container: MakeContainer, bundle: MakeBundle, place: str
) -> None:
    made = on_host(bundle())
    one = container(made).started()
    target = made.rootfs / place
    target.mkdir(parents=True, exist_ok=True)
    isolation.mount("tmpfs", str(target), "tmpfs")
    (target / "file").write_text("of the host")
    one.delete("--force").ok()
    assert (target / "file").read_text() == "of the host"
    assert len(below(made.rootfs)) == 1
    isolation.unmount(str(target))
    assert below(made.rootfs) == []


@OURS
@MOUNTS_OF_THE_HOST
def test_what_was_mounted_before_stays(container: MakeContainer, bundle: MakeBundle) -> None:
    made = on_host(bundle())
    (made.rootfs / "data").mkdir()
    isolation.mount("tmpfs", str(made.rootfs / "data"), "tmpfs")
    (made.rootfs / "data" / "file").write_text("of the host")
    before = Path("/proc/self/mountinfo").read_text()
    one = container(made).started()
    one.exec("cat", "/data/file").ok()
    one.delete("--force").ok()
    assert Path("/proc/self/mountinfo").read_text() == before
    isolation.unmount(str(made.rootfs / "data"))


@OURS
@MOUNTS_OF_THE_HOST
def test_a_mount_of_the_host_where_the_root_was(
    container: MakeContainer, bundle: MakeBundle
) -> None:
    """The administrator has unmounted everything and mounted another filesystem."""
    made = on_host(bundle())
    one = container(made).started()
    one.kill("KILL")
    one.wait()
    unmount_below(made.rootfs)
    isolation.mount("tmpfs", str(made.rootfs), "tmpfs")
    one.delete().ok()
    assert below(made.rootfs) == [str(made.rootfs)]
    isolation.unmount(str(made.rootfs))


@OURS
@pytest.mark.parametrize("kept", ["number", "unique"])
@MOUNTS_OF_THE_HOST
def test_a_mount_that_has_the_number_now(
    container: MakeContainer, bundle: MakeBundle, work: Path, kept: str
) -> None:
    """The kernel reuses mount ids: the recorded one is another mount's."""
    made = on_host(bundle())
    other = work / "other"
    other.mkdir()
    isolation.mount("tmpfs", str(other), "tmpfs")
    one = container(made).started()
    record = one.runtime.root / one.id / "root-mount.json"
    text = record.read_text()
    numbers = [
        line.split()[0]
        for line in Path("/proc/self/mountinfo").read_text().splitlines()
        if line.split()[4] == str(other)
    ]
    document = {**json.loads(text), "number": int(numbers[0])}
    if kept == "number":  # as before Linux 6.8
        document["unique"] = 0
    record.write_text(json.dumps(document))
    one.kill("KILL")
    one.wait()
    one.delete().ok()
    assert below(other) == [str(other)]
    unmount_below(made.rootfs)
    isolation.unmount(str(other))


@OURS
@MOUNTS_OF_THE_HOST
def test_a_covered_root(container: MakeContainer, bundle: MakeBundle, work: Path) -> None:
    """A mount that the host has made over the root filesystem is not unmounted."""
    made = on_host(bundle())
    one = container(made).started()
    one.kill("KILL")
    one.wait()
    isolation.mount("tmpfs", str(work), "tmpfs")
    one.runtime("delete", one.id).failed("root.path: unmount")
    isolation.unmount(str(work))
    one.delete().ok()
    assert below(made.rootfs) == []


@OURS
@MOUNTS_OF_THE_HOST
def test_deleted_from_another_mount_namespace(
    container: MakeContainer, bundle: MakeBundle, runtime: Runtime
) -> None:
    made = on_host(bundle())
    one = container(made).started()
    command = ["unshare", "--mount", *runtime.command("delete", "--force", one.id)]
    subprocess.run(command, check=True)
    one.exists = False
    assert below(made.rootfs) == []


@OURS
@MOUNTS_OF_THE_HOST
def test_a_container_that_may_mount(container: MakeContainer, bundle: MakeBundle) -> None:
    """Its own mounts are removed with it: nobody else knows them."""
    made = on_host(bundle()).capabilities(*ADMIN)
    one = container(made).started()
    one.exec("sh", "-c", "mkdir -p /m && mount -t tmpfs tmpfs /m && mount -t tmpfs tmpfs /tmp").ok()
    result = one.delete("--force")
    assert "/m" in result.err
    assert below(made.rootfs) == []


@MOUNTS_OF_THE_HOST
def test_a_user_namespace_has_no_power_over_the_host_s_mounts(
    container: MakeContainer, bundle: MakeBundle, swept: Path
) -> None:
    """The kernel refuses; runc and crun fail, too."""
    one = container(on_host(bundle()).user_namespace())
    result = one.create().failed("not permitted")
    if one.runtime.kind == "ociruntime":
        assert 'add {\\"type\\": \\"mount\\"}' in result.err
    assert below(one.bundle.rootfs) == []


@OURS
@pytest.mark.parametrize("place", ["", "/sub", "/.."])
@MOUNTS_OF_THE_HOST
def test_two_roots_in_one_place(container: MakeContainer, bundle: MakeBundle, place: str) -> None:
    """Unmounting one would remove the other's mounts: the second is refused."""
    made, other = on_host(bundle()), on_host(bundle())
    (made.rootfs / "sub").mkdir()
    one = container(made).started()
    other.config["root"]["path"] = str(made.rootfs) + place
    container(other).create().failed("root of", one.id)
    one.exec("cat", "/proc/self/status").ok()
    one.delete("--force").ok()
    assert below(made.rootfs) == []
    other.config["root"]["path"] = str(made.rootfs)
    container(other.shell("true")).run().ok()


@OURS
def test_the_host_s_root_is_not_covered(container: MakeContainer, bundle: MakeBundle) -> None:
    made = on_host(bundle())
    made.config["root"]["path"] = "/"
    before = Path("/proc/self/mountinfo").read_text()
    container(made).create().failed("root.path: ", "mount namespace")
    assert Path("/proc/self/mountinfo").read_text() == before
