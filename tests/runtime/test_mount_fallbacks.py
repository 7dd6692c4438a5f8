"""The same container where the kernel, or an outer seccomp filter, lacks mount calls."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import isolation
from tests.support.bundle import Bundle
from tests.support.container import Container
from tests.support.mounts import Seen, mounts_of
from tests.support.plugin import MakeBundle, MakeContainer
from tests.support.refusal import LACKS, lacking
from tests.support.runtime import Runtime

SCRIPT = """
    cat /data/sub/deep /file /deep/er/file /through/link/x
    stat -c '%n %a %u:%g' /scratch /kept /kept/* /data /deep
    for f in /data /rw /scratch /ro /proc/sys/kernel/domainname /; do
        test -d $f && f=$f/new; echo x 2>/dev/null >$f && echo $f
    done
    cat /proc/kcore; ls /sys/firmware; ls -l /dev | sed 's/ [A-Z][a-z][a-z] .*:.. / /'
"""


@pytest.fixture
def rich(bundle: MakeBundle, work: Path) -> Iterator[Bundle]:
    """A bundle with every kind of mount."""
    tree = work / "tree"
    (tree / "sub").mkdir(parents=True)
    isolation.mount("tmpfs", str(tree / "sub"), "tmpfs", isolation.MS_NODEV | isolation.MS_NOEXEC)
    (tree / "sub/deep").write_text("deep\n")
    (work / "file").write_text("file\n")
    work.chmod(0o755)
    one = bundle().shell(SCRIPT)
    (one.rootfs / "kept").mkdir()
    (one.rootfs / "kept/name").write_text("kept\n")
    for name in ("elsewhere", "ro"):
        (one.rootfs / name).mkdir()
    (one.rootfs / "through").mkdir()
    (one.rootfs / "through/link").symlink_to("../../../elsewhere")
    one.bind(tree, "/data", "ro", "nosuid", "nodiratime").bind(tree, "/rw", "rslave", "noatime")
    one.bind(work / "file", "/file", "bind", "nosuid", "nodev", "strictatime")
    one.bind(work / "file", "/deep/er/file", "bind", "ro").bind(work / "file", "/through/link/x")
    one.mount("/scratch", "tmpfs", "t", "noexec", "mode=1711", "uid=0", "size=64k", "sync")
    one.mount("/kept", "tmpfs", "t", "tmpcopyup", "nosymfollow").mount("/ro", "tmpfs", "t", "ro")
    one.mount("/ro/in", "tmpfs", "t", "private", "dirsync", "noatime")
    one.mount("/scratch", "bind", "none", "remount", "bind", "noexec", "nosuid")
    one.namespace("cgroup").mount("/sys/fs/cgroup", "cgroup", "cgroup", "ro", "nosuid")
    one.config["root"]["readonly"] = True
    yield one
    isolation.unmount(str(tree / "sub"))


def table(one: Container) -> dict[str, tuple[object, ...]]:
    return {target: said(mount) for target, mount in mounts_of(one).items()}


def said(mount: Seen) -> tuple[object, ...]:
    options = sorted(mount.options)
    return (mount.root, mount.fstype, options, sorted(mount.super_options), mount.propagation)


@pytest.mark.parametrize("lack", LACKS)
@pytest.mark.parametrize("user_namespace", [False, True], ids=["", "user namespace"])
def test_same_facts(
    container: MakeContainer,
    runtime: Runtime,
    rich: Bundle,
    work: Path,
    lack: str,
    user_namespace: bool,
) -> None:
    if user_namespace:
        rich.user_namespace()
        for mount in rich.config["mounts"][6:9]:  # access times of the host's mounts are locked
            mount["options"] = [word for word in mount["options"] if "atime" not in word]
    usual, old = container(rich), container(rich)
    old.runtime = lacking(runtime, work, lack)
    tables = []
    for one in (usual, old):
        one.created()
        tables.append({key: repr(value).replace(one.id, "ID") for key, value in table(one).items()})
        one.runtime = runtime
        one.start().silent()
        one.wait()
    assert tables[0] == tables[1]
    assert usual.output == old.output
    assert "deep\nfile\nfile\nfile\n" in old.output


@pytest.fixture
def locked(work: Path) -> Iterator[Path]:
    """A mount whose attributes a user namespace cannot change."""
    place = work / "locked"
    place.mkdir()
    work.chmod(0o755)
    flags = isolation.MS_NODEV | isolation.MS_NOEXEC | isolation.MS_NOATIME
    isolation.mount("tmpfs", str(place), "tmpfs", flags)
    yield place
    isolation.unmount(str(place))


def test_locked_attributes_stay(
    container: MakeContainer, runtime: Runtime, bundle: MakeBundle, work: Path, locked: Path
) -> None:
    one = bundle().user_namespace().bind(locked, "/data", "ro", "relatime", "nosuid")
    one.mount("/data", "bind", "none", "remount", "bind", "nosymfollow", "strictatime")
    old = container(one)
    old.runtime = lacking(runtime, work, "5.1")
    seen = mounts_of(old.created())["/data"].options
    assert {"ro", "nosuid", "nodev", "noexec", "noatime", "nosymfollow"} <= seen
    old.runtime = runtime


@pytest.mark.parametrize("word", ["dev", "exec"])
def test_locked_attributes_cannot_be_cleared(
    container: MakeContainer,
    runtime: Runtime,
    bundle: MakeBundle,
    work: Path,
    locked: Path,
    word: str,
) -> None:
    one = container(bundle().user_namespace().bind(locked, "/data", word))
    one.runtime = lacking(runtime, work, "5.1")
    one.create().failed("mounts[6]", "cannot clear")


@pytest.mark.parametrize("lack", ["5.1", "5.11"])
def test_recursive_attributes_are_not_pretended(
    container: MakeContainer, runtime: Runtime, bundle: MakeBundle, work: Path, lack: str
) -> None:
    (work / "tree").mkdir()
    one = container(bundle().bind(work / "tree", "/data", "rro"))
    one.runtime = lacking(runtime, work, lack)
    one.create().failed("mounts[6]", "mounts below")


@pytest.mark.parametrize("lack", ["5.1", "5.11"])
def test_no_id_maps(
    container: MakeContainer, runtime: Runtime, bundle: MakeBundle, work: Path, lack: str
) -> None:
    (work / "tree").mkdir()
    one = bundle().bind(work / "tree", "/data", "idmap").user_namespace()
    old = container(one)
    old.runtime = lacking(runtime, work, lack)
    old.create().failed("mounts[6]", "older than 5.")


@pytest.mark.parametrize("lack", [None, "5.1"])
def test_long_options(
    container: MakeContainer, runtime: Runtime, bundle: MakeBundle, work: Path, lack: str | None
) -> None:
    """An overlay with many layers: more than fsconfig(2) accepts."""
    layers = []
    for number in range(30):
        layer = work / "layers" / f"number-{number:02}"
        layer.mkdir(parents=True)
        (layer / f"from-{number}").touch()
        layers.append(str(layer))
    assert len(":".join(layers)) > 512
    one = bundle("ls", "/data").mount("/data", "overlay", "o", f"lowerdir={':'.join(layers)}", "ro")
    made = container(one)
    if lack:
        made.runtime = lacking(runtime, work, lack)
    assert len(made.run().ok().out.split()) == 30


def test_too_long_options(container: MakeContainer, bundle: MakeBundle) -> None:
    one = bundle().mount("/data", "overlay", "o", f"lowerdir={'/tmp:' * 1000}/tmp")
    container(one).create().failed("mounts[6]", "4095 bytes")


@pytest.mark.parametrize("lack", ["5.1", "filter"])
def test_hostile_root(
    container: MakeContainer, runtime: Runtime, bundle: MakeBundle, work: Path, lack: str
) -> None:
    """CVE-2019-19921: a /proc that leads elsewhere; targets that lead to the host."""
    one = bundle("true")
    (one.rootfs / "out").symlink_to(os.path.relpath(work, "/"))
    (one.rootfs / "abs").symlink_to(work)
    one.mount("/out/made", "tmpfs", "t").mount("/abs/made2", "tmpfs", "t")
    first = container(one)
    first.runtime = lacking(runtime, work, lack)
    first.run().ok()
    assert not (work / "made").exists()
    assert not (work / "made2").exists()
    (one.rootfs / "proc").rmdir()
    (one.rootfs / "proc").symlink_to("tmp")
    second = container(one)
    second.runtime = lacking(runtime, work, lack)
    second.create().failed("mounts[0]", "symbolic link")
