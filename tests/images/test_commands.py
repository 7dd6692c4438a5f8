"""``ocipod image ...``: output, removal, exported files and errors."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tarfile
import time
from pathlib import Path

import pytest

from ociruntime.manager.containers.pod_calls import HAS_NAME
from tests.support import images
from tests.support.image_store import ImageStore
from tests.support.images import pack
from tests.support.ocipod import Ocipod

A, B, SHARED = pack({"a": "1"}), pack({"b": "2"}), pack({"shared": "s" * 5000})


def make_pod(image_store: ImageStore, built: images.BuiltImage, phase: str = "prepared") -> Path:
    """Create the files of a prepared pod that concern images."""
    pod = image_store.ocipod.directory / "pods" / phase / "01234567-89ab-4cde-8f01-23456789abcd"
    app = pod / "apps/one"
    app.mkdir(parents=True)
    tree = image_store.tree(built).name
    (app / "image.json").write_text(json.dumps({"id": built.id, "name": "x", "tree": tree}))
    (pod / "pod").write_text(json.dumps({"acKind": "PodManifest", "apps": []}))
    return pod


# --- rm ---


def test_rm(image_store: ImageStore) -> None:
    one, two = image_store.fetch("one", A, SHARED), image_store.fetch("two", B, SHARED)
    out = image_store.ocipod("image", "rm", one.id[7:20]).ok().out
    assert out.startswith(f"removed {one.id} {image_store.name('one')}\n1 of 1 removed, ")
    assert image_store.listed() == [image_store.name("two")]
    assert {path.name for path in image_store.blobs.iterdir()} == {
        digest[7:] for digest in two.blobs
    }
    assert list(image_store.trees.iterdir()) == [image_store.tree(two)]


def test_rm_goes_on_after_trouble(image_store: ImageStore) -> None:
    image_store.fetch("one", A)
    image_store.fetch("two", B)
    done = image_store.ocipod(
        "image", "rm", "nothing", image_store.name("one"), "0123456", image_store.name("two")
    )
    assert done.status == 254
    assert '"nothing" is not' in done.err
    assert '"0123456" is not' in done.err
    assert done.out.endswith("freed\n")
    assert "2 of 4 removed" in done.out
    assert image_store.listed() == []


def test_rm_keeps_a_tree_that_another_image_has(image_store: ImageStore) -> None:
    one = image_store.fetch("one", A)
    image_store.fetch("two", A, config={"Cmd": ["other"]})
    image_store.ocipod("image", "rm", one.id).ok()
    assert (image_store.tree(one) / "rendered").exists()


def test_rm_of_unnamed_images(image_store: ImageStore) -> None:
    """An image may get a name after a prune has found it without one."""
    before, after = image_store.fetch("one", A), image_store.fetch("one", B)
    done = image_store.ocipod("image", "rm", "--unnamed", before.id, after.id)
    assert done.status == 254
    assert HAS_NAME + image_store.name("one") in done.err  # the manager recognises it
    assert done.out.startswith(f"removed {before.id}\n1 of 2 removed")
    assert image_store.listed() == [image_store.name("one")]


@pytest.mark.parametrize("phase", ["prepare", "prepared", "run", "exited-garbage", "garbage"])
def test_rm_refuses_what_a_pod_uses(image_store: ImageStore, phase: str) -> None:
    built = image_store.fetch("one", A)
    make_pod(image_store, built, phase)
    done = image_store.ocipod("image", "rm", image_store.name("one"))
    assert done.status == 254
    assert "by a pod" in done.err
    assert image_store.listed() == [image_store.name("one")]
    image_store.ocipod("image", "rm", "--force", image_store.name("one")).ok()
    assert image_store.listed() == []
    assert (image_store.tree(built) / "rendered").exists(), "the pod's files stay"


# --- gc ---


def test_gc_waits_for_the_grace_period(image_store: ImageStore) -> None:
    built = image_store.fetch("one", A)
    assert image_store.ocipod("image", "gc").ok().out.startswith("0 images, 0 trees and 0 stray")
    assert image_store.ocipod("image", "gc", "--grace-period=1h").ok().out.startswith("0 images")
    out = image_store.ocipod("image", "gc", "--grace-period=0s").ok().out
    assert f"removed {built.id}" in out
    assert f"removed tree {image_store.tree(built).name}" in out
    assert list(image_store.blobs.iterdir()) == list(image_store.trees.iterdir()) == []


def test_gc_keeps_what_pods_use(image_store: ImageStore) -> None:
    used, other = image_store.fetch("used", A), image_store.fetch("other", B)
    pod = make_pod(image_store, used)
    image_store.ocipod("image", "gc", "--grace-period=0s").ok()
    assert image_store.listed() == [image_store.name("used")]
    assert image_store.tree(used).exists()
    assert not image_store.tree(other).exists()
    (pod / "apps/one/image.json").write_text("{")
    image_store.ocipod("image", "gc", "--grace-period=0s").failed("images pods use")
    assert image_store.listed() == [image_store.name("used")], "not knowing, it removes nothing"


def test_gc_removes_what_crashes_left(image_store: ImageStore) -> None:
    built = images.make_layout(image_store.work / "one", layers=[A])
    killed = image_store.ocipod(
        "fetch", image_store.name("one"), fault="treestore.before-rendered-flag:kill"
    )
    assert killed.status == -signal.SIGKILL
    assert image_store.tree(built).exists()
    (image_store.blobs / ("0" * 64)).write_text("no image has it")
    stale = image_store.ocipod.directory / "cas/tmp/123-abc"
    stale.mkdir()
    (stale / "partial").write_bytes(bytes(1000))
    out = image_store.ocipod("image", "gc").ok().out
    assert "0 images, 1 trees and 3 stray files removed" in out
    assert not image_store.tree(built).exists()
    assert not stale.exists()
    assert image_store.listed() == [image_store.name("one")]
    image_store.ocipod("fetch", image_store.name("one")).ok()
    assert (image_store.tree(built) / "rendered").exists()


def test_gc_holds_the_lock_of_preparing(image_store: ImageStore) -> None:
    """Between its check and the removal, no pod can be prepared, and vice versa."""
    import fcntl

    image_store.fetch("one", A)
    stopped = image_store.ocipod.popen(
        "image", "gc", "--grace-period=0s", fault="imagegc.before-sweep:stop"
    )
    os.waitid(os.P_PID, stopped.pid, os.WSTOPPED | os.WNOWAIT)
    lock = os.open(image_store.ocipod.directory / "locks/prepareLock", os.O_RDONLY)
    try:
        with pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        stopped.send_signal(signal.SIGCONT)
        assert stopped.wait(30) == 0
        fcntl.flock(lock, fcntl.LOCK_SH)
        waiting = image_store.ocipod.popen("image", "gc", "--grace-period=0s")
        time.sleep(0.5)
        assert waiting.poll() is None
        fcntl.flock(lock, fcntl.LOCK_UN)
        assert waiting.wait(30) == 0
    finally:
        os.close(lock)


@pytest.mark.parametrize("by", ["id", "name"])
def test_gc_leaves_what_was_used_meanwhile(image_store: ImageStore, by: str) -> None:
    """A pod's image is looked up and marked as used before ``prepare`` takes the lock."""
    used, other = image_store.fetch("one", A), image_store.fetch("two", B)
    manifest = image_store.blobs / used.id[7:]
    before = manifest.stat().st_mtime_ns
    gc = image_store.ocipod.popen(
        "image",
        "gc",
        "--grace-period=0s",
        fault="imagegc.before-sweep:stop",
        stdout=subprocess.PIPE,
    )
    os.waitid(os.P_PID, gc.pid, os.WSTOPPED | os.WNOWAIT)
    prepare = image_store.ocipod.popen(
        "prepare", used.id if by == "id" else image_store.name("one"), "--exec=/a"
    )
    deadline = time.monotonic() + 60
    while manifest.stat().st_mtime_ns == before and time.monotonic() < deadline:
        time.sleep(0.01)
    gc.send_signal(signal.SIGCONT)
    out = gc.communicate(timeout=60)[0].decode()
    assert (gc.returncode, prepare.wait(60)) == (0, 0)
    assert image_store.listed() == [image_store.name("one")]
    assert f"removed {other.id}" in out
    assert f"removed {used.id}" not in out
    assert "\n1 images, 2 trees and 0 stray files removed, " in out
    assert (image_store.tree(used) / "rendered").exists()


@pytest.mark.parametrize("period", ["x", "-1s", "1", "1d"])
def test_gc_refuses(image_store: ImageStore, period: str) -> None:
    image_store.fetch("one", A)
    image_store.ocipod("image", "gc", f"--grace-period={period}").failed("--grace-period")
    assert image_store.listed() == [image_store.name("one")]


# --- export, extract, render ---


@pytest.mark.parametrize("compression", ["", "gzip", "zstd"])
def test_export_comes_back(image_store: ImageStore, compression: str) -> None:
    built = image_store.fetch("one", A, SHARED, compression=compression)
    file = image_store.work / "one.tar"
    image_store.ocipod("image", "export", image_store.name("one"), str(file)).ok()
    with tarfile.open(file) as archive:
        assert archive.getnames()[:2] == ["oci-layout", "index.json"]
    assert not [path for path in image_store.work.iterdir() if path.name.startswith(".")]
    again = image_store.ocipod("image", "export", image_store.name("one"), "-").ok()
    assert len(again.out) > 0
    image_store.ocipod("image", "rm", built.id).ok()
    out = image_store.ocipod("fetch", "--full", f"oci-archive:{file}").ok().out
    assert out.strip() == built.id


def test_extract_comes_back(image_store: ImageStore) -> None:
    built = image_store.fetch("one", A, SHARED)
    image_store.ocipod("image", "extract", built.id, str(image_store.work / "layout")).ok()
    image_store.ocipod("image", "rm", built.id).ok()
    out = image_store.ocipod("fetch", "--full", f"oci:{image_store.work}/layout").ok().out
    assert out.strip() == built.id
    image_store.ocipod(
        "image", "export", "--format=oci", built.id, str(image_store.work / "layout"), "--overwrite"
    ).ok()
    assert sorted(os.listdir(image_store.work / "layout")) == ["blobs", "index.json", "oci-layout"]


def test_render(image_store: ImageStore) -> None:
    built = image_store.fetch("one", pack({"a": "1", "b": "2"}), pack({".wh.a": "", "d/e": "3"}))
    target = image_store.work / "out"
    image_store.ocipod("image", "render", built.id, str(target)).ok()
    assert sorted(os.listdir(target)) == ["image-config.json", "rootfs"]
    assert json.loads((target / "image-config.json").read_text()) == built.config_document
    assert sorted(os.listdir(target / "rootfs")) == ["b", "d"]
    image_store.ocipod("image", "render", built.id, str(target)).failed("exists", "--overwrite")
    image_store.ocipod(
        "image", "render", "--overwrite", "--rootfs-only", built.id, str(target)
    ).ok()
    assert sorted(os.listdir(target)) == ["b", "d"]


def test_targets_that_are_refused(image_store: ImageStore) -> None:
    built = image_store.fetch("one", A)
    file = image_store.work / "file"
    file.write_text("mine")
    data = image_store.ocipod.directory
    for target, word in (
        ("/", "root directory"),
        (str(data), "contains"),
        (str(data.parent), "contains"),
        (str(data / "cas/x"), "data directory"),
        ("/proc", "mount point"),
        (str(file), "is not a directory"),
        (str(image_store.work / "none/x"), "no such file"),
    ):
        for verb in ("render", "extract"):
            image_store.ocipod("image", verb, "--overwrite", built.id, target).failed(word)
    (image_store.work / "link").symlink_to(data)
    linked = Ocipod(image_store.work / "link")
    linked("image", "extract", built.id, str(data / "cas/x")).failed("data directory")
    image_store.ocipod("image", "export", built.id, str(file)).failed("exists", "--overwrite")
    image_store.ocipod("image", "export", built.id, str(image_store.work)).failed("is a directory")
    assert file.read_text() == "mine"
    assert image_store.listed() == [image_store.name("one")]


@pytest.mark.parametrize("verb", ["export", "extract", "render"])
def test_nothing_is_left_of_a_failure(image_store: ImageStore, verb: str) -> None:
    built = image_store.fetch("one", A)
    layer = image_store.blobs / built.manifest_document["layers"][0]["digest"][7:]
    layer.write_bytes(layer.read_bytes()[::-1])
    before = sorted(os.listdir(image_store.work))
    target = image_store.work / "target"
    image_store.ocipod("image", verb, built.id, str(target)).failed()
    assert sorted(os.listdir(image_store.work)) == before


# --- verify ---


def test_verify(image_store: ImageStore) -> None:
    built = image_store.fetch("one", A)
    name = image_store.name("one")
    assert image_store.ocipod("image", "verify", name).ok().out.endswith("tree is whole\n")
    (image_store.tree(built) / "rootfs/a").write_text("2")
    out = image_store.ocipod("image", "verify", name).ok().out
    assert out.startswith(f"{name}: ")
    assert "modified" in out
    assert (image_store.tree(built) / "rootfs/a").read_text() == "1"
    shutil.rmtree(image_store.tree(built))
    assert image_store.ocipod("image", "verify", name).ok().out.endswith("tree is not rendered\n")


def test_verify_leaves_the_tree_of_a_running_pod(image_store: ImageStore) -> None:
    import fcntl

    built = image_store.fetch("one", A)
    pod = os.open(make_pod(image_store, built, "run"), os.O_RDONLY)
    try:
        fcntl.flock(pod, fcntl.LOCK_EX)
        (image_store.tree(built) / "rootfs/a").write_text("2")
        done = image_store.ocipod("image", "verify", built.id)
        assert done.status == 254
        assert "running pod" in done.out
        assert (image_store.tree(built) / "rootfs/a").read_text() == "2"
    finally:
        os.close(pod)
    image_store.ocipod("image", "verify", built.id).ok()
    assert (image_store.tree(built) / "rootfs/a").read_text() == "1"


@pytest.mark.parametrize("which", ["manifest", "config", "layer"])
@pytest.mark.parametrize("how", ["changed", "gone"])
def test_verify_finds_damaged_blobs(image_store: ImageStore, which: str, how: str) -> None:
    built = image_store.fetch("one", A)
    digest = {
        "manifest": built.id,
        "config": images.digest(built.config),
        "layer": images.digest(built.stored[0]),
    }[which]
    path = image_store.blobs / digest[7:]
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes() + b" ")
    done = image_store.ocipod("image", "verify", image_store.name("one"))
    assert done.status == 254
    assert f"blob {digest} is damaged" in done.out
    image_store.ocipod("image", "rm", image_store.name("one")).ok()
    image_store.ocipod("fetch", image_store.name("one")).ok()
    image_store.ocipod("image", "verify", image_store.name("one")).ok()


# --- cat-manifest ---


def test_cat_manifest(image_store: ImageStore) -> None:
    built = image_store.fetch("one", A)
    name = image_store.name("one")
    assert (
        image_store.ocipod("image", "cat-manifest", name).ok().out == built.manifest.decode() + "\n"
    )
    config = image_store.ocipod("image", "cat-manifest", "--config", name).ok()
    assert config.json == built.config_document
    pretty = image_store.ocipod("image", "cat-manifest", "--pretty-print", name).ok()
    assert pretty.json == built.manifest_document
    assert len(pretty.out.splitlines()) > 10
    image_store.ocipod("image", "cat-manifest", "--index", name).failed("no index")
    image_store.ocipod("image", "cat-manifest", "--config", "--index", name).failed(
        "mutually exclusive"
    )
    image_store.ocipod("image", "cat-manifest", "nothing").failed('"nothing"')


def test_cat_manifest_of_an_index(image_store: ImageStore) -> None:
    both = [images.BuiltImage([A], architecture=name) for name in (images.MACHINE, "riscv64")]
    digest = images.make_index_layout(image_store.work / "both", both)
    image_store.ocipod("fetch", image_store.name("both")).ok()
    index = (
        image_store.ocipod("image", "cat-manifest", "--index", image_store.name("both")).ok().out
    )
    assert images.digest(index.removesuffix("\n").encode()) == digest
    assert image_store.ocipod("image", "list", "--format=json").json[0]["id"] == both[0].id


# --- fetch ---


def test_an_image_that_cannot_be_unpacked_does_not_stay(image_store: ImageStore) -> None:
    """It does not take the name of the previous image either."""
    old = image_store.fetch("one", A)
    shutil.rmtree(image_store.work / "one")
    images.make_layout(image_store.work / "one", layers=[A, pack({"../../out": "x"})])
    image_store.ocipod("fetch", image_store.name("one")).failed('"../../out" in the layer')
    image_store.ocipod("fetch", "--pull-policy=never", image_store.name("one")).ok()
    assert [one["id"] for one in image_store.ocipod("image", "list", "--format=json").json] == [
        old.id
    ]
    assert {path.name for path in image_store.blobs.iterdir()} == {
        digest[7:] for digest in old.blobs
    }
    assert list(image_store.trees.iterdir()) == [image_store.tree(old)]
    assert list((image_store.ocipod.directory / "cas/tmp").iterdir()) == []


def test_a_killed_fetch_leaves_a_stale_import_at_most(image_store: ImageStore) -> None:
    """Killed at any time, it leaves nothing in the store, or the whole image."""
    built = images.make_layout(
        image_store.work / "one", layers=[A, pack({"x": os.urandom(20 << 20)})]
    )
    for delay in (0.1, 0.2, 0.3, 0.4, 0.6):
        process = image_store.ocipod.popen("fetch", image_store.name("one"))
        time.sleep(delay)
        process.kill()
        process.wait()
        assert image_store.listed() in ([], [image_store.name("one")])
        image_store.ocipod("image", "gc").ok()
        names = {path.name for path in image_store.blobs.iterdir()}
        assert names in (set(), {digest[7:] for digest in built.blobs})
        assert list((image_store.ocipod.directory / "cas/tmp").iterdir()) == []
    image_store.ocipod("fetch", image_store.name("one")).ok()
    image_store.ocipod("image", "verify", image_store.name("one")).ok()
