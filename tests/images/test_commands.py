"""``ocipod image ...``: what is printed, removed, written and refused."""

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

from tests.support import images
from tests.support.images import pack
from tests.support.ocipod import Ocipod
from tests.support.shop import Shop

A, B, SHARED = pack({"a": "1"}), pack({"b": "2"}), pack({"shared": "s" * 5000})


def make_pod(shop: Shop, built: images.BuiltImage, phase: str = "prepared") -> Path:
    """What preparing a pod leaves, as far as images are concerned."""
    pod = shop.ocipod.directory / "pods" / phase / "01234567-89ab-4cde-8f01-23456789abcd"
    app = pod / "apps/one"
    app.mkdir(parents=True)
    tree = shop.tree(built).name
    (app / "image.json").write_text(json.dumps({"id": built.id, "name": "x", "tree": tree}))
    (pod / "pod").write_text(json.dumps({"acKind": "PodManifest", "apps": []}))
    return pod


# --- rm ---


def test_rm(shop: Shop) -> None:
    one, two = shop.fetch("one", A, SHARED), shop.fetch("two", B, SHARED)
    out = shop.ocipod("image", "rm", one.id[7:20]).ok().out
    assert out.startswith(f"removed {one.id} {shop.name('one')}\n1 of 1 removed, ")
    assert shop.listed() == [shop.name("two")]
    assert {path.name for path in shop.blobs.iterdir()} == {digest[7:] for digest in two.blobs}
    assert list(shop.trees.iterdir()) == [shop.tree(two)]


def test_rm_goes_on_after_trouble(shop: Shop) -> None:
    shop.fetch("one", A)
    shop.fetch("two", B)
    done = shop.ocipod("image", "rm", "nothing", shop.name("one"), "0123456", shop.name("two"))
    assert done.status == 254
    assert '"nothing" is not in the store' in done.err
    assert '"0123456" is not in the store' in done.err
    assert done.out.endswith("freed\n")
    assert "2 of 4 removed" in done.out
    assert shop.listed() == []


def test_rm_keeps_a_tree_that_another_image_has(shop: Shop) -> None:
    one = shop.fetch("one", A)
    shop.fetch("two", A, config={"Cmd": ["other"]})
    shop.ocipod("image", "rm", one.id).ok()
    assert (shop.tree(one) / "rendered").exists()


@pytest.mark.parametrize("phase", ["prepare", "prepared", "run", "exited-garbage", "garbage"])
def test_rm_refuses_what_a_pod_uses(shop: Shop, phase: str) -> None:
    built = shop.fetch("one", A)
    make_pod(shop, built, phase)
    done = shop.ocipod("image", "rm", shop.name("one"))
    assert done.status == 254
    assert "is used by a pod" in done.err
    assert shop.listed() == [shop.name("one")]
    shop.ocipod("image", "rm", "--force", shop.name("one")).ok()
    assert shop.listed() == []
    assert (shop.tree(built) / "rendered").exists(), "the pod's files stay"


# --- gc ---


def test_gc_waits_for_the_grace_period(shop: Shop) -> None:
    built = shop.fetch("one", A)
    assert shop.ocipod("image", "gc").ok().out.startswith("0 images, 0 trees and 0 stray")
    assert shop.ocipod("image", "gc", "--grace-period=1h").ok().out.startswith("0 images")
    out = shop.ocipod("image", "gc", "--grace-period=0s").ok().out
    assert f"removed {built.id}" in out
    assert f"removed tree {shop.tree(built).name}" in out
    assert list(shop.blobs.iterdir()) == list(shop.trees.iterdir()) == []


def test_gc_keeps_what_pods_use(shop: Shop) -> None:
    used, other = shop.fetch("used", A), shop.fetch("other", B)
    pod = make_pod(shop, used)
    shop.ocipod("image", "gc", "--grace-period=0s").ok()
    assert shop.listed() == [shop.name("used")]
    assert shop.tree(used).exists()
    assert not shop.tree(other).exists()
    (pod / "apps/one/image.json").write_text("{")
    shop.ocipod("image", "gc", "--grace-period=0s").failed("find the images in use")
    assert shop.listed() == [shop.name("used")], "not knowing, it removes nothing"


def test_gc_removes_what_crashes_left(shop: Shop) -> None:
    built = images.make_layout(shop.work / "one", layers=[A])
    killed = shop.ocipod("fetch", shop.name("one"), fault="treestore.before-rendered-flag:kill")
    assert killed.status == -signal.SIGKILL
    assert shop.tree(built).exists()
    (shop.blobs / ("0" * 64)).write_text("no image has it")
    stale = shop.ocipod.directory / "cas/tmp/123-abc"
    stale.mkdir()
    (stale / "partial").write_bytes(bytes(1000))
    out = shop.ocipod("image", "gc").ok().out
    assert "0 images, 1 trees and 3 stray files removed" in out
    assert not shop.tree(built).exists()
    assert not stale.exists()
    assert shop.listed() == [shop.name("one")]
    shop.ocipod("fetch", shop.name("one")).ok()
    assert (shop.tree(built) / "rendered").exists()


def test_gc_holds_the_lock_of_preparing(shop: Shop) -> None:
    """While it is between looking and removing, no pod can be prepared; and the other way."""
    import fcntl

    shop.fetch("one", A)
    stopped = shop.ocipod.popen(
        "image", "gc", "--grace-period=0s", fault="imagegc.before-sweep:stop"
    )
    os.waitid(os.P_PID, stopped.pid, os.WSTOPPED | os.WNOWAIT)
    lock = os.open(shop.ocipod.directory / "locks/prepareLock", os.O_RDONLY)
    try:
        with pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        stopped.send_signal(signal.SIGCONT)
        assert stopped.wait(30) == 0
        fcntl.flock(lock, fcntl.LOCK_SH)
        waiting = shop.ocipod.popen("image", "gc", "--grace-period=0s")
        time.sleep(0.5)
        assert waiting.poll() is None
        fcntl.flock(lock, fcntl.LOCK_UN)
        assert waiting.wait(30) == 0
    finally:
        os.close(lock)


@pytest.mark.parametrize("by", ["id", "name"])
def test_gc_leaves_what_was_used_meanwhile(shop: Shop, by: str) -> None:
    """A pod's image is looked up, and marked as used, before its preparing takes the lock."""
    used, other = shop.fetch("one", A), shop.fetch("two", B)
    manifest = shop.blobs / used.id[7:]
    before = manifest.stat().st_mtime_ns
    gc = shop.ocipod.popen(
        "image",
        "gc",
        "--grace-period=0s",
        fault="imagegc.before-sweep:stop",
        stdout=subprocess.PIPE,
    )
    os.waitid(os.P_PID, gc.pid, os.WSTOPPED | os.WNOWAIT)
    prepare = shop.ocipod.popen("prepare", used.id if by == "id" else shop.name("one"), "--exec=/a")
    deadline = time.monotonic() + 60
    while manifest.stat().st_mtime_ns == before and time.monotonic() < deadline:
        time.sleep(0.01)
    gc.send_signal(signal.SIGCONT)
    out = gc.communicate(timeout=60)[0].decode()
    assert (gc.returncode, prepare.wait(60)) == (0, 0)
    assert shop.listed() == [shop.name("one")]
    assert f"removed {other.id}" in out
    assert f"removed {used.id}" not in out
    assert "\n1 images, 2 trees and 0 stray files removed, " in out
    assert (shop.tree(used) / "rendered").exists()


@pytest.mark.parametrize("period", ["x", "-1s", "1", "1d"])
def test_gc_refuses(shop: Shop, period: str) -> None:
    shop.fetch("one", A)
    shop.ocipod("image", "gc", f"--grace-period={period}").failed("--grace-period")
    assert shop.listed() == [shop.name("one")]


# --- export, extract, render ---


@pytest.mark.parametrize("compression", ["", "gzip", "zstd"])
def test_export_comes_back(shop: Shop, compression: str) -> None:
    built = shop.fetch("one", A, SHARED, compression=compression)
    file = shop.work / "one.tar"
    shop.ocipod("image", "export", shop.name("one"), str(file)).ok()
    with tarfile.open(file) as archive:
        assert archive.getnames()[:2] == ["oci-layout", "index.json"]
    assert not [path for path in shop.work.iterdir() if path.name.startswith(".")]
    again = shop.ocipod("image", "export", shop.name("one"), "-").ok()
    assert len(again.out) > 0
    shop.ocipod("image", "rm", built.id).ok()
    out = shop.ocipod("fetch", "--full", f"oci-archive:{file}").ok().out
    assert out.strip() == built.id


def test_extract_comes_back(shop: Shop) -> None:
    built = shop.fetch("one", A, SHARED)
    shop.ocipod("image", "extract", built.id, str(shop.work / "layout")).ok()
    shop.ocipod("image", "rm", built.id).ok()
    out = shop.ocipod("fetch", "--full", f"oci:{shop.work}/layout").ok().out
    assert out.strip() == built.id
    shop.ocipod(
        "image", "export", "--format=oci", built.id, str(shop.work / "layout"), "--overwrite"
    ).ok()
    assert sorted(os.listdir(shop.work / "layout")) == ["blobs", "index.json", "oci-layout"]


def test_render(shop: Shop) -> None:
    built = shop.fetch("one", pack({"a": "1", "b": "2"}), pack({".wh.a": "", "d/e": "3"}))
    target = shop.work / "out"
    shop.ocipod("image", "render", built.id, str(target)).ok()
    assert sorted(os.listdir(target)) == ["image-config.json", "rootfs"]
    assert json.loads((target / "image-config.json").read_text()) == built.config_document
    assert sorted(os.listdir(target / "rootfs")) == ["b", "d"]
    shop.ocipod("image", "render", built.id, str(target)).failed("exists", "--overwrite")
    shop.ocipod("image", "render", "--overwrite", "--rootfs-only", built.id, str(target)).ok()
    assert sorted(os.listdir(target)) == ["b", "d"]


def test_targets_that_are_refused(shop: Shop) -> None:
    built = shop.fetch("one", A)
    file = shop.work / "file"
    file.write_text("mine")
    data = shop.ocipod.directory
    for target, word in (
        ("/", "root directory"),
        (str(data), "contains"),
        (str(data.parent), "contains"),
        (str(data / "cas/x"), "is inside the data directory"),
        ("/proc", "mount point"),
        (str(file), "is not a directory"),
        (str(shop.work / "none/x"), "no such file"),
    ):
        for verb in ("render", "extract"):
            shop.ocipod("image", verb, "--overwrite", built.id, target).failed(word)
    (shop.work / "link").symlink_to(data)
    linked = Ocipod(shop.work / "link")
    linked("image", "extract", built.id, str(data / "cas/x")).failed("is inside the data directory")
    shop.ocipod("image", "export", built.id, str(file)).failed("exists", "--overwrite")
    shop.ocipod("image", "export", built.id, str(shop.work)).failed("is a directory")
    assert file.read_text() == "mine"
    assert shop.listed() == [shop.name("one")]


@pytest.mark.parametrize("verb", ["export", "extract", "render"])
def test_nothing_is_left_of_a_failure(shop: Shop, verb: str) -> None:
    built = shop.fetch("one", A)
    layer = shop.blobs / built.manifest_document["layers"][0]["digest"][7:]
    layer.write_bytes(layer.read_bytes()[::-1])
    before = sorted(os.listdir(shop.work))
    target = shop.work / "target"
    shop.ocipod("image", verb, built.id, str(target)).failed()
    assert sorted(os.listdir(shop.work)) == before


# --- verify ---


def test_verify(shop: Shop) -> None:
    built = shop.fetch("one", A)
    name = shop.name("one")
    assert shop.ocipod("image", "verify", name).ok().out.endswith("tree is whole\n")
    (shop.tree(built) / "rootfs/a").write_text("2")
    out = shop.ocipod("image", "verify", name).ok().out
    assert out == f"{name}: tree was modified; unpacked again\n"
    assert (shop.tree(built) / "rootfs/a").read_text() == "1"
    shutil.rmtree(shop.tree(built))
    assert shop.ocipod("image", "verify", name).ok().out.endswith("tree is not rendered\n")


def test_verify_leaves_the_tree_of_a_running_pod(shop: Shop) -> None:
    import fcntl

    built = shop.fetch("one", A)
    pod = os.open(make_pod(shop, built, "run"), os.O_RDONLY)
    try:
        fcntl.flock(pod, fcntl.LOCK_EX)
        (shop.tree(built) / "rootfs/a").write_text("2")
        done = shop.ocipod("image", "verify", built.id)
        assert done.status == 254
        assert "while a running pod uses it" in done.out
        assert (shop.tree(built) / "rootfs/a").read_text() == "2"
    finally:
        os.close(pod)
    shop.ocipod("image", "verify", built.id).ok()
    assert (shop.tree(built) / "rootfs/a").read_text() == "1"


@pytest.mark.parametrize("which", ["manifest", "config", "layer"])
@pytest.mark.parametrize("how", ["changed", "gone"])
def test_verify_finds_damaged_blobs(shop: Shop, which: str, how: str) -> None:
    built = shop.fetch("one", A)
    digest = {
        "manifest": built.id,
        "config": images.digest(built.config),
        "layer": images.digest(built.stored[0]),
    }[which]
    path = shop.blobs / digest[7:]
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes() + b" ")
    done = shop.ocipod("image", "verify", shop.name("one"))
    assert done.status == 254
    assert f"blob {digest} is damaged" in done.out
    shop.ocipod("image", "rm", shop.name("one")).ok()
    shop.ocipod("fetch", shop.name("one")).ok()
    shop.ocipod("image", "verify", shop.name("one")).ok()


# --- cat-manifest ---


def test_cat_manifest(shop: Shop) -> None:
    built = shop.fetch("one", A)
    name = shop.name("one")
    assert shop.ocipod("image", "cat-manifest", name).ok().out == built.manifest.decode() + "\n"
    config = shop.ocipod("image", "cat-manifest", "--config", name).ok()
    assert config.json == built.config_document
    pretty = shop.ocipod("image", "cat-manifest", "--pretty-print", name).ok()
    assert pretty.json == built.manifest_document
    assert len(pretty.out.splitlines()) > 10
    shop.ocipod("image", "cat-manifest", "--index", name).failed("was not chosen from an index")
    shop.ocipod("image", "cat-manifest", "--config", "--index", name).failed("cannot be combined")
    shop.ocipod("image", "cat-manifest", "nothing").failed("is not in the store")


def test_cat_manifest_of_an_index(shop: Shop) -> None:
    both = [images.BuiltImage([A], architecture=name) for name in (images.MACHINE, "riscv64")]
    digest = images.make_index_layout(shop.work / "both", both)
    shop.ocipod("fetch", shop.name("both")).ok()
    index = shop.ocipod("image", "cat-manifest", "--index", shop.name("both")).ok().out
    assert images.digest(index.removesuffix("\n").encode()) == digest
    assert shop.ocipod("image", "list", "--format=json").json[0]["id"] == both[0].id


# --- fetch ---


def test_an_image_that_cannot_be_unpacked_does_not_stay(shop: Shop) -> None:
    """Nor does it take the name from the one before."""
    old = shop.fetch("one", A)
    shutil.rmtree(shop.work / "one")
    images.make_layout(shop.work / "one", layers=[A, pack({"../../out": "x"})])
    shop.ocipod("fetch", shop.name("one")).failed('the name "../../out"')
    shop.ocipod("fetch", "--pull-policy=never", shop.name("one")).ok()
    assert [one["id"] for one in shop.ocipod("image", "list", "--format=json").json] == [old.id]
    assert {path.name for path in shop.blobs.iterdir()} == {digest[7:] for digest in old.blobs}
    assert list(shop.trees.iterdir()) == [shop.tree(old)]
    assert list((shop.ocipod.directory / "cas/tmp").iterdir()) == []


def test_a_killed_fetch_leaves_a_stale_import_at_most(shop: Shop) -> None:
    """Killed at any time: nothing is in the store, or the whole image."""
    built = images.make_layout(shop.work / "one", layers=[A, pack({"x": os.urandom(20 << 20)})])
    for delay in (0.1, 0.2, 0.3, 0.4, 0.6):
        process = shop.ocipod.popen("fetch", shop.name("one"))
        time.sleep(delay)
        process.kill()
        process.wait()
        assert shop.listed() in ([], [shop.name("one")])
        shop.ocipod("image", "gc").ok()
        names = {path.name for path in shop.blobs.iterdir()}
        assert names in (set(), {digest[7:] for digest in built.blobs})
        assert list((shop.ocipod.directory / "cas/tmp").iterdir()) == []
    shop.ocipod("fetch", shop.name("one")).ok()
    shop.ocipod("image", "verify", shop.name("one")).ok()
