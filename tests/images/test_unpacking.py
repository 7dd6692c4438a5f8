"""Layers on a real filesystem: devices, attributes, capabilities, mounts; compared with others."""

from __future__ import annotations

import io
import json
import os
import shutil
import stat
import struct
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.support import images, isolation
from tests.support.image_store import ImageStore
from tests.support.images import Content, member, pack

# VFS_CAP_REVISION_2 with the effective bit; permitted: CAP_NET_RAW
CAPABILITY = struct.pack("<IIIII", 0x02000001, 1 << 13, 0, 0, 0)
# One entry each for the owner, uid 7, the group, the mask and others
ACL = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, rights, id)
    for tag, rights, id in ((1, 6, 0xFFFFFFFF), (2, 4, 7), (4, 4, 0xFFFFFFFF),
                            (16, 4, 0xFFFFFFFF), (32, 0, 0xFFFFFFFF))
)  # fmt: skip


def with_attributes(name: str, type: bytes, attributes: dict[str, bytes]) -> bytes:
    """Return a tar member with binary values, which the standard library cannot write."""
    records = b""
    for key, value in attributes.items():
        rest = b" SCHILY.xattr.%s=%s\n" % (key.encode(), value)
        length = len(rest) + 1
        while len(str(length)) + len(rest) != length:
            length += 1
        records += str(length).encode() + rest
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        header = member(b"x", name="pax", size=len(records))
        archive.addfile(header, io.BytesIO(records))
        archive.addfile(member(type, name=name, linkname="x" if type == b"2" else "", mode=0o640))
    return buffer.getvalue()[: 512 + -(-len(records) // 512) * 512 + 512]


def attributes_of(path: Path) -> dict[str, bytes]:
    names = os.listxattr(path, follow_symlinks=False)
    return {name: os.getxattr(path, name, follow_symlinks=False) for name in names}


@pytest.fixture(autouse=True)
def _attributes(work: Path) -> None:
    (work / "try").touch()
    try:
        os.setxattr(work / "try", "user.x", b"")
    except OSError as error:
        pytest.skip(f"{work} has no extended attributes: {error.strerror}")


def rendered(image_store: ImageStore, *layers: bytes) -> Path:
    return image_store.tree(image_store.fetch("image", *layers)) / "rootfs"


def test_devices(image_store: ImageStore) -> None:
    layer = {
        "dev/null": member(tarfile.CHRTYPE, mode=0o666, devmajor=1, devminor=3),
        "dev/disk": member(tarfile.BLKTYPE, mode=0o660, gid=6, devmajor=8, devminor=300),
        "dev/pipe": member(tarfile.FIFOTYPE, mode=0o622),
    }
    root = rendered(image_store, pack(layer), pack({"dev/null": "a file now"}), pack(layer))
    null, disk = (root / "dev/null").lstat(), (root / "dev/disk").lstat()
    assert stat.S_ISCHR(null.st_mode)
    assert stat.S_IMODE(null.st_mode) == 0o666
    assert null.st_rdev == os.makedev(1, 3)
    assert stat.S_ISBLK(disk.st_mode)
    assert (disk.st_rdev, disk.st_gid) == (os.makedev(8, 300), 6)
    assert stat.S_ISFIFO((root / "dev/pipe").lstat().st_mode)


def test_extended_attributes(image_store: ImageStore) -> None:
    wanted = {
        "user.note": b"\0\xff=\n",
        "security.capability": CAPABILITY,
        "system.posix_acl_access": ACL,
    }
    refused = {
        "trusted.overlay.opaque": b"y",
        "trusted.mine": b"x",
        "user.overlay.redirect": b"/etc",
        "security.selinux": b"system_u:object_r:shadow_t:s0",
        "security.ima": b"x",
    }
    layer = with_attributes("file", b"0", wanted | refused)
    layer += with_attributes("directory", b"5", {"user.note": b"d", "trusted.overlay.opaque": b"y"})
    layer += with_attributes("link", b"2", {"user.note": b"not on links"})
    layer += with_attributes("pipe", b"6", {"user.note": b"nor on these"})
    root = rendered(image_store, layer + bytes(1024))
    found = attributes_of(root / "file")
    assert {name: found.get(name) for name in wanted} == wanted
    assert not refused.keys() & found.keys()
    assert attributes_of(root / "directory") == {"user.note": b"d"}
    assert not attributes_of(root / "link")
    assert not attributes_of(root / "pipe")


def test_what_is_left_out_is_told(image_store: ImageStore) -> None:
    layer = with_attributes("a", b"0", {"trusted.overlay.opaque": b"y", "security.selinux": b"s"})
    images.make_layout(image_store.work / "image", layers=[layer + bytes(1024)])
    done = image_store.ocipod("--debug", "fetch", image_store.name("image")).ok()
    assert "trusted.overlay.opaque" in done.err
    assert "overlayfs would" in done.err
    assert "security.selinux" in done.err


def test_attributes_of_a_lower_layer_do_not_stay(image_store: ImageStore) -> None:
    lower = with_attributes("d", b"5", {"user.old": b"o", "user.both": b"1"})
    upper = with_attributes("d", b"5", {"user.both": b"2"})
    root = rendered(image_store, lower + bytes(1024), upper + bytes(1024))
    assert attributes_of(root / "d") == {"user.both": b"2"}


def test_files_do_not_inherit_an_access_list(image_store: ImageStore) -> None:
    """The kernel copies a directory's default ACL to new files in it."""
    lower = with_attributes("d", b"5", {"system.posix_acl_default": ACL})
    root = rendered(image_store, lower + bytes(1024), pack({"d/file": "x", "d/e/": ""}))
    assert attributes_of(root / "d") == {"system.posix_acl_default": ACL}
    assert attributes_of(root / "d/file") == {}
    assert attributes_of(root / "d/e") == {}
    assert stat.S_IMODE((root / "d/file").stat().st_mode) == 0o644


def test_a_tree_is_the_lower_layer_of_an_overlay(image_store: ImageStore) -> None:
    root = rendered(image_store, images.busybox_layer(), pack({"etc/.wh.hostname": "", "new": "n"}))
    places = {name: image_store.work / name for name in ("upper", "work", "mounted")}
    for place in places.values():
        place.mkdir()
    options = f"lowerdir={root},upperdir={places['upper']},workdir={places['work']}"
    isolation.mount("overlay", str(places["mounted"]), "overlay", data=options)
    command = ["chroot", str(places["mounted"]), "/bin/sh", "-c"]
    script = "cat new; ls etc; echo changed > new; rm etc/passwd; stat -c %a /tmp"
    done = subprocess.run([*command, script], capture_output=True, text=True)
    isolation.unmount(str(places["mounted"]))
    assert done.stdout == "ngroup\npasswd\n1777\n"
    assert (root / "new").read_text() == "n"
    assert (root / "etc/passwd").exists()
    image_store.ocipod("image", "verify", image_store.name("image")).ok()


TYPICAL: list[dict[str, Content]] = [
    {
        "bin/": "",
        "bin/tool": member(tarfile.REGTYPE, mode=0o4755, uid=3, gid=4, mtime=1_000_000_000),
        "etc/conf": "first",
        "etc/gone": "x",
        "lib": member(tarfile.SYMTYPE, linkname="usr/lib"),
        "usr/lib/": "",
        "usr/lib/one.so": "1",
        "data/a": "a",
        "data/sub/b": "b",
        "home/": member(tarfile.DIRTYPE, mode=0o2770, uid=1000, gid=50, mtime=1_500_000_000),
        "name" * 60: "long",
        "umläut/名": "names",
        "dev/zero": member(tarfile.CHRTYPE, mode=0o666, devmajor=1, devminor=5),
    },
    {
        "etc/.wh.gone": "",
        "etc/conf": "second",
        "data/.wh..wh..opq": "",
        "data/c": "c",
        "bin/link": member(tarfile.LNKTYPE, linkname="bin/tool"),
        "bin/soft": member(tarfile.SYMTYPE, linkname="/bin/tool", mode=0o777),
        "usr/lib/two.so": "2",
    },
    {"etc/conf/": "", "etc/conf/d": "a directory now", "usr/lib/one.so": "1.1"},
]


def facts(root: Path) -> dict[str, tuple[object, ...]]:
    """Return the properties that another unpacker must agree on.

    Times of directories are left out, because they depend on the order.
    """
    found: dict[str, tuple[object, ...]] = {}
    for directory, directories, names in os.walk(root):
        for name in directories + names:
            path = Path(directory, name)
            one = path.lstat()
            content = path.read_text() if stat.S_ISREG(one.st_mode) else ""
            link = os.readlink(path) if stat.S_ISLNK(one.st_mode) else ""
            times = 0 if stat.S_ISDIR(one.st_mode) else one.st_mtime_ns
            links = 0 if stat.S_ISDIR(one.st_mode) else one.st_nlink
            mode = "" if stat.S_ISLNK(one.st_mode) else stat.filemode(one.st_mode)
            found[str(path.relative_to(root))] = (
                mode, one.st_uid, one.st_gid, one.st_rdev, links, times, content, link,
            )  # fmt: skip
    return found


@pytest.mark.skipif(not shutil.which("umoci"), reason="umoci is not installed")
@pytest.mark.parametrize("compression", ["", "gzip"])
def test_umoci_agrees(image_store: ImageStore, compression: str) -> None:
    layers = [pack(layer) for layer in TYPICAL]
    images.make_layout(image_store.work / "image", layers=layers, compression=compression, tag="v1")
    bundle = image_store.work / "bundle"
    source = ["--image", f"{image_store.work}/image:v1", str(bundle)]
    subprocess.run(["umoci", "unpack", *source], check=True, capture_output=True)
    image_store.ocipod("fetch", image_store.name("image")).ok()
    target = image_store.work / "out"
    image_store.ocipod(
        "image", "render", "--rootfs-only", image_store.name("image"), str(target)
    ).ok()
    ours, theirs = facts(target), facts(bundle / "rootfs")
    assert ours == theirs
    assert ours["etc/conf/d"][6] == "a directory now"


@pytest.mark.skipif(not shutil.which("skopeo"), reason="skopeo is not installed")
def test_skopeo_reads_what_is_exported(image_store: ImageStore) -> None:
    built = image_store.fetch("image", *[pack(layer) for layer in TYPICAL])
    archive = image_store.work / "image.tar"
    image_store.ocipod("image", "export", built.id, str(archive)).ok()
    image_store.ocipod("image", "extract", built.id, str(image_store.work / "layout")).ok()
    for source in (f"oci-archive:{archive}", f"oci:{image_store.work}/layout:latest"):
        done = subprocess.run(["skopeo", "inspect", source], capture_output=True, check=True)
        assert json.loads(done.stdout)["Digest"] == built.id
    copy = [
        "skopeo",
        "copy",
        "--quiet",
        f"oci-archive:{archive}",
        f"oci:{image_store.work}/copy:v1",
    ]
    subprocess.run(copy, check=True, capture_output=True)
    out = image_store.ocipod("fetch", "--full", f"oci:{image_store.work}/copy:v1").ok().out
    assert out.strip() == built.id


def test_gnu_tar_agrees(image_store: ImageStore) -> None:
    """A whole directory of this machine, packed and unpacked by tar."""
    source = next(path for path in map(Path, ("/etc", "/usr/share/doc")) if path.is_dir())
    options = ["--xattrs", "--xattrs-include=user.*", "--format=posix", "--ignore-failed-read"]
    packed = subprocess.run(
        ["tar", *options, "-C", str(source), "-cf", "-", "."], capture_output=True
    ).stdout
    theirs = image_store.work / "theirs"
    theirs.mkdir()
    unpack = ["tar", "-C", str(theirs), "--xattrs", "--numeric-owner", "-pxf", "-"]
    subprocess.run(unpack, input=packed, check=True)
    root = rendered(image_store, packed)
    assert _binary_facts(root) == _binary_facts(theirs)


def _binary_facts(root: Path) -> dict[str, tuple[object, ...]]:
    found: dict[str, tuple[object, ...]] = {}
    for directory, directories, names in os.walk(root):
        for name in directories + names:
            path = Path(directory, name)
            one = path.lstat()
            content = path.read_bytes() if stat.S_ISREG(one.st_mode) else b""
            link = os.readlink(path) if stat.S_ISLNK(one.st_mode) else ""
            found[str(path.relative_to(root))] = (
                one.st_mode, one.st_uid, one.st_gid, one.st_mtime_ns, content, link,
            )  # fmt: skip
    return found
