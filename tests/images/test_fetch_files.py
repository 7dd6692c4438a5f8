"""Images from files: all formats, their detection, and invalid files."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import stat
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from ociruntime.images.model.image import Image
from ociruntime.images.store.store import Store
from ociruntime.images.unpack.tree_store import TreeStore
from tests.images.conftest import Refused
from tests.support import aci, images
from tests.support.ocipod import Ocipod

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "tar": bytes,
    "tar.gz": gzip.compress,
    "tar.bz2": bz2.compress,
    "tar.xz": lzma.compress,
    "tar.zst": zstandard.compress,
}


@pytest.fixture
def built() -> images.BuiltImage:
    return images.build([images.busybox_layer(), images.pack({"hello": "world"})])


def found(ocipod: Ocipod, name: str) -> Image:
    with Store(str(ocipod.directory)) as store:
        return store.find(name)


def rendered(ocipod: Ocipod, name: str) -> Path:
    trees = TreeStore(str(ocipod.directory))
    return Path(trees.rootfs(trees.render(found(ocipod, name))))


def is_empty(ocipod: Ocipod) -> bool:
    blobs = ocipod.directory / "cas" / "blobs"
    return not [path for path in blobs.rglob("*") if path.is_file()]


def test_layouts_and_archives(ocipod: Ocipod, built: images.BuiltImage, work: Path) -> None:
    built.name = "example.org/web:v1"
    built.write_layout(work / "layout", "v1")
    built.write_oci_archive(work / "oci.tar", "v1")
    built.write_docker_archive(work / "docker.tar")
    (work / "oci.tar.gz").write_bytes(gzip.compress((work / "oci.tar").read_bytes()))
    for name in (
        f"oci:{work}/layout:v1",
        f"oci:{work}/layout",
        f"oci:{work}/layout:{built.id}",
        f"{work}/layout",
        f"oci-archive:{work}/oci.tar:v1",
        f"{work}/oci.tar",
        f"file://{work}/oci.tar.gz",
    ):
        assert ocipod("fetch", "--full", name).ok().out == f"{built.id}\n", name
    docker = f"docker-archive:{work}/docker.tar"
    ocipod("fetch", docker, f"{docker}:example.org/web:v1", f"{work}/docker.tar").ok()
    image = found(ocipod, docker)
    assert [layer.diff_id for layer in image.layers] == found(ocipod, built.id).config["rootfs"][
        "diff_ids"
    ]
    ocipod("fetch", f"oci:{work}/layout:v2").failed('index.json has no image "v2"', "available: v1")
    ocipod("fetch", f"{docker}:v2").failed(
        'manifest.json has no image "v2"', "available: example.org/web:v1"
    )


def test_what_is_printed_as_json(ocipod: Ocipod, work: Path) -> None:
    volumes: dict[str, object] = {"/a b": {}, "/new\nline": {}, "/": {}}
    built = images.make_layout(work / "layout", config={"Volumes": volumes})
    out = ocipod("fetch", "--format=json", f"oci:{work}/layout").ok().out
    assert json.loads(out) == {"id": built.id, "volumes": ["/a b", "/new\nline"]}
    assert out.count("\n") == 1


def test_policies_of_pulling(ocipod: Ocipod, built: images.BuiltImage, work: Path) -> None:
    """A file is read whenever it exists; without it, the stored image is used."""
    name = f"oci:{work}/layout"
    ocipod("fetch", "--pull-policy=never", name).failed("in the store")
    built.write_layout(work / "layout")
    ocipod("fetch", "--pull-policy=new", name).ok()
    (work / "layout").rename(work / "before")
    assert ocipod("fetch", "--full", "--pull-policy=new", name).ok().out == f"{built.id}\n"
    assert ocipod("fetch", "--full", "--pull-policy=never", name).ok().out == f"{built.id}\n"
    path = str(work / "layout")
    assert ocipod("fetch", "--full", "--pull-policy=never", path).ok().out == f"{built.id}\n"
    ocipod("fetch", name).failed("no such file")
    ocipod("fetch", "--pull-policy=never", str(work / "nothing")).failed("no such file")
    other = images.make_layout(work / "layout", files={"more": "x"})
    assert ocipod("fetch", "--full", "--pull-policy=new", name).ok().out == f"{other.id}\n"


def test_several_images_in_one_layout(ocipod: Ocipod, work: Path) -> None:
    one, two = (images.build([images.pack({"a": text})]) for text in "ab")
    entries = [images.tagged(one.entry, "one"), images.tagged(two.entry, "two")]
    images.write_directory(work / "l", images.layout_files(one.blobs | two.blobs, entries))
    assert ocipod("fetch", "--full", f"oci:{work}/l:two").ok().out == f"{two.id}\n"
    ocipod("fetch", f"oci:{work}/l").failed("index.json has several images", "one, two")


def test_an_index_in_a_layout(ocipod: Ocipod, built: images.BuiltImage, work: Path) -> None:
    foreign = images.BuiltImage([images.pack({"x": "y"})], architecture="s390x")
    index = images.make_index_layout(work / "l", [foreign, built])
    assert ocipod("fetch", "--full", f"oci:{work}/l:latest").ok().out == f"{built.id}\n"
    assert found(ocipod, built.id).index == index
    words = ("fetch", "--full", f"oci:{work}/l:latest")
    assert ocipod(*words, "--platform=linux/s390x").ok().out == f"{foreign.id}\n"
    assert ocipod(*words).ok().out == f"{built.id}\n"


def make_tree(tree: Path) -> None:
    (tree / "sub").mkdir(parents=True)
    (tree / "file").write_text("hello")
    os.setxattr(tree / "file", "user.key", b"\xff\0value")
    os.chown(tree / "file", 1000, 2000)
    os.link(tree / "file", tree / "sub" / "hard")
    (tree / "soft").symlink_to("sub/hard")
    (tree / ("n" * 200)).write_bytes(os.urandom(100_000))
    os.mkfifo(tree / "fifo", 0o600)
    os.mknod(tree / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    (tree / "sub").chmod(0o1770)
    os.utime(tree / "file", (1_000_000, 1_000_000))


def test_a_directory(ocipod: Ocipod, work: Path) -> None:
    tree = work / "tree"
    make_tree(tree)
    first = ocipod("fetch", "--full", f"dir:{tree}").ok().out
    assert ocipod("fetch", "--full", str(tree)).ok().out == first  # the same files, the same image
    made = rendered(ocipod, f"dir:{tree}")
    assert sorted(os.listdir(made)) == sorted(os.listdir(tree))
    file = made / "file"
    assert (file.read_text(), os.getxattr(file, "user.key")) == ("hello", b"\xff\0value")
    about = file.stat()
    assert (about.st_uid, about.st_gid, about.st_mtime) == (1000, 2000, 1_000_000)
    assert about.st_ino == (made / "sub" / "hard").stat().st_ino
    assert os.readlink(made / "soft") == "sub/hard"
    assert stat.S_ISFIFO((made / "fifo").stat().st_mode)
    assert (made / "null").stat().st_rdev == os.makedev(1, 3)
    assert stat.S_IMODE((made / "sub").stat().st_mode) == 0o1770
    (tree / "more").touch()
    assert ocipod("fetch", "--full", f"dir:{tree}").ok().out != first


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_tarball(ocipod: Ocipod, work: Path, suffix: str) -> None:
    file = work / f"root.{suffix}"
    file.write_bytes(PACKERS[suffix](images.pack({"etc/": "", "etc/name": "x"})))
    first = ocipod("fetch", "--full", str(file)).ok().out
    assert ocipod("fetch", "--full", f"tar:{file}").ok().out == first
    assert (rendered(ocipod, f"tar:{file}") / "etc" / "name").read_text() == "x"


def test_what_is_no_image(ocipod: Ocipod, refused: Refused, work: Path) -> None:
    def write(name: str, data: bytes) -> str:
        (work / name).write_bytes(data)
        return str(work / name)

    packed = gzip.compress(images.pack({"a": os.urandom(3000)}))
    os.mkfifo(work / "fifo")
    (work / "marks").mkdir()
    (work / "marks" / ".wh.x").touch()
    cases = {
        str(work / "nothing"): "no such file",
        f"oci:{work}/nothing": "no such file",
        str(work / "fifo"): 'fifo": not a regular',
        f"tar:{work}/fifo": 'fifo": not a regular',
        write("text.tar", b"hello" * 1000): "damaged",
        f"tar:{work}/text.tar": "a tar archive",
        "tar:/proc/self/mem": 'read "/proc/self/mem": input/output error',
        write("short.tar.gz", packed[:-20]): "",
        write("other.tar.gz", packed[:-8] + bytes(8)): 'other.tar.gz": the gzip data is damaged',
        write("broken.tar.gz", packed[:100] + b"x" * 9 + packed[109:]): "damaged",
        write("broken.tar.bz2", b"BZh9" + b"x" * 50): 'broken.tar.bz2": the bzip2 data is damaged',
        write("broken.tar.xz", lzma.compress(b"x" * 3000)[:-8]): "",
        f"oci:{work}/marks": 'oci-layout": no such file',
        f"oci-archive:{write('empty.tar', images.pack({}))}": 'open "oci-layout" in the archive',
        f"docker-archive:{work}/empty.tar": 'open "manifest.json" in the archive',
        f"aci:{work}/empty.tar": 'file "manifest"',
        f"dir:{work}/marks": '".wh.x" to a layer: ',
        f"dir:{work}/text.tar": "not a directory",
        f"aci:{write('other.aci', images.pack({'manifest': '{}'}))}": "acKind must be",
    }
    for name, words in cases.items():
        refused(name, words)
        assert is_empty(ocipod), name
    assert os.listdir(ocipod.directory / "cas" / "tmp") == []


def test_damaged_layouts(
    ocipod: Ocipod, refused: Refused, built: images.BuiltImage, work: Path
) -> None:
    files = built.layout_files("v1")
    layer = built.manifest_document["layers"][1]["digest"]
    blob = f"blobs/sha256/{layer[7:]}"
    manifest = f"blobs/sha256/{built.id[7:]}"
    changes: list[tuple[dict[str, bytes], str]] = [
        ({blob: files[blob][:-1] + b"x"}, "digest mismatch"),
        ({blob: files[blob][:-1]}, "ends after"),
        ({manifest: files[manifest] + b" "}, "digest mismatch"),
        ({"oci-layout": b'{"imageLayoutVersion": "2.0.0"}'}, "imageLayoutVersion '2.0.0'"),
        ({"index.json": b"[]"}, "JSON object"),
        ({"index.json": files[manifest]}, "image index"),
    ]
    for number, (change, words) in enumerate(changes):
        images.write_directory(work / str(number), files | change)
        refused(f"oci:{work}/{number}", words)
        (work / "a.tar").write_bytes(images.pack(files | change))
        refused(f"oci-archive:{work}/a.tar", words)
        assert is_empty(ocipod)


def test_links_in_a_layout_lead_nowhere_else(
    ocipod: Ocipod, refused: Refused, built: images.BuiltImage, work: Path
) -> None:
    """In an archive, a link is only followed inside the archive."""
    files: dict[str, Any] = dict(built.layout_files("v1"))
    (work / "outside").write_bytes(files["index.json"])
    files["index.json"] = images.member(tarfile.SYMTYPE, linkname=f"{work}/outside")
    (work / "a.tar").write_bytes(images.pack(files))
    refused(f"oci-archive:{work}/a.tar", 'open "index.json" in the archive')


# --- App Container Images ---


APP = {
    "exec": ["/bin/sh", "-c", "cat /hello"],
    "user": "1",
    "group": "2",
    "workingDirectory": "/srv",
    "environment": [{"name": "KEY", "value": "a=b"}],
    "ports": [{"name": "www", "protocol": "tcp", "port": 80, "count": 2}],
    "mountPoints": [{"name": "data", "path": "/data"}],
}


def test_an_aci(ocipod: Ocipod, work: Path) -> None:
    hard = images.member(tarfile.LNKTYPE, linkname="rootfs/hello")
    files = {"hello": "world", "link": hard, "soft": images.member(tarfile.SYMTYPE, linkname="/x")}
    aci.write(work / "app.aci", aci.manifest("example.com/app", app=APP), files)
    ocipod("fetch", f"{work}/app.aci").ok()
    image = found(ocipod, "example.com/app:1.0")
    assert image.id == found(ocipod, f"aci:{work}/app.aci").id
    config = image.app
    assert config["Entrypoint"] == APP["exec"]
    assert (config["User"], config["WorkingDir"], config["Env"]) == ("1:2", "/srv", ["KEY=a=b"])
    assert (set(config["ExposedPorts"]), set(config["Volumes"])) == (
        {"80/tcp", "81/tcp"},
        {"/data"},
    )
    tree = rendered(ocipod, image.id)
    assert (tree / "link").stat().st_ino == (tree / "hello").stat().st_ino
    assert sorted(os.listdir(tree)) == ["hello", "link", "soft"]


def test_headers_of_an_aci_become_those_of_its_layer(ocipod: Ocipod, work: Path) -> None:
    """The same file gives the same image, which keeps its name."""
    fields = {"uname": "web", "gname": "w" * 40, "mtime": 1.25, "uid": 33, "gid": 1 << 22}
    header = images.member(tarfile.REGTYPE, mode=0o4711, **fields)
    aci.write(work / "app.aci", aci.manifest("example.com/app"), {"file": header})
    ocipod("fetch", f"{work}/app.aci").ok()
    with Store(str(ocipod.directory)) as store:
        (layer,) = store.find("example.com/app:1.0").layers
        with tarfile.open(store.blobs.path_of(layer.digest)) as archive:
            made = archive.getmember("file")
    assert {key: getattr(made, key) for key in fields} == fields
    assert made.mode == 0o4711


def test_dependencies_of_an_aci(ocipod: Ocipod, work: Path) -> None:
    label = [{"name": "version", "value": "1.0"}]
    base = {"imageName": "example.com/base", "labels": label}
    aci.write(work / "top.aci", aci.manifest("example.com/top", dependencies=[base]), {"b": "top"})
    ocipod("fetch", f"{work}/top.aci").failed(
        'dependency: image "example.com/base:1.0"', "ocipod fetch example.com/base:1.0"
    )
    id = aci.write(work / "base.aci", aci.manifest("example.com/base"), {"a": "base", "b": "base"})
    ocipod("fetch", f"{work}/base.aci", f"{work}/top.aci").ok()
    tree = rendered(ocipod, "example.com/top:1.0")
    assert ((tree / "a").read_text(), (tree / "b").read_text()) == ("base", "top")
    other = f"sha512-{'0' * 128}"
    for given in (other, id):
        named = base | {"imageID": given}
        aci.write(work / "top.aci", aci.manifest("example.com/x", dependencies=[named]), {"b": ""})
        done = ocipod("fetch", f"{work}/top.aci")
        if given == other:
            done.failed('top.aci": dependency "example.com/base:1.0"', "imageID")
        else:
            done.ok()


def test_dependencies_need_permission_too(ocipod: Ocipod, refused: Refused, work: Path) -> None:
    dependency = {"imageName": "example.com/base", "labels": []}
    manifest = aci.manifest("example.com/base") | {"labels": []}
    aci.write(work / "base.aci", manifest, {"a": "base"})
    aci.write(work / "top.aci", aci.manifest("example.org/top", dependencies=[dependency]), {})
    ocipod("fetch", f"{work}/base.aci").ok()
    signed = {"signedBy": {"openpgp": True}}
    for rule, words in (("reject", "is rejected"), (signed, "was imported without")):
        policy = {"prefixes": {"example.com": rule}}
        (work / "config" / "policy.json").write_text(json.dumps(policy))
        refused(f"{work}/top.aci", f'image "example.com/base:latest" {words}')


def test_a_whitelist_of_an_aci(ocipod: Ocipod, work: Path) -> None:
    manifest = aci.manifest("example.com/app", pathWhitelist=["/etc/a"])
    aci.write(work / "x.aci", manifest, {"etc/": "", "etc/a": "", "etc/b": "", "c": ""})
    ocipod("fetch", f"{work}/x.aci").ok()
    tree = rendered(ocipod, "example.com/app:1.0")
    assert sorted(str(path.relative_to(tree)) for path in tree.rglob("*")) == ["etc", "etc/a"]


def test_acis_that_are_refused(ocipod: Ocipod, refused: Refused, work: Path) -> None:
    name = "example.com/app"
    cases: list[tuple[dict[str, object], dict[str, Any], str]] = [
        (aci.manifest("Bad Name"), {}, "invalid name"),
        (
            aci.manifest(name, labels=[{"name": [], "value": "x"}]),
            {},
            "name and value",
        ),
        (
            aci.manifest(name, labels=[{"name": "os", "value": "darwin"}]),
            {},
            'unsupported os "darwin"',
        ),
        (aci.manifest(name, labels=[{"name": "arch", "value": "pdp"}]), {}, "unsupported arch"),
        (
            aci.manifest(name, labels=aci.version("1/2")),
            {},
            "manifest: label version",
        ),
        (aci.manifest(name, app={"eventHandlers": [{}]}), {}, "is not supported"),
        (aci.manifest(name, app=["x"]), {}, "manifest: app "),
        (
            aci.manifest(name, app={"user": 0}),
            {},
            "app.workingDirectory",
        ),
        (aci.manifest(name, app={"exec": "x"}), {}, "exec"),
        (aci.manifest(name, app={"ports": [{"port": 0}]}), {}, "ports"),
        (aci.manifest(name, app={"ports": [{"port": 1, "protocol": "x"}]}), {}, "ports"),
        (aci.manifest(name, app={"mountPoints": [{"name": "x"}]}), {}, "mountPoints"),
        (aci.manifest(name, dependencies=[{"imageName": "?"}]), {}, "dependencies"),
        (aci.manifest(name), {"../x": ""}, 'unexpected member "rootfs/../x"'),
        (aci.manifest(name), {".wh.x": ""}, ".wh.x"),
        (
            aci.manifest(name),
            {"x": images.member(tarfile.LNKTYPE, linkname="manifest")},
            "in the image",
        ),
    ]
    for manifest, files, words in cases:
        aci.write(work / "x.aci", manifest, files)
        refused(f"aci:{work}/x.aci", words)
        assert is_empty(ocipod)


def test_the_name_in_an_aci_needs_its_own_permission(ocipod: Ocipod, work: Path) -> None:
    """A file cannot take the name of an image that must be signed."""
    rules = {"prefixes": {"example.com": {"signedBy": {"openpgp": True}}}}
    (work / "config" / "policy.json").write_text(json.dumps(rules))
    aci.write(work / "x.aci", aci.manifest("example.com/app"), {"a": ""})
    ocipod("fetch", f"{work}/x.aci").ok()
    assert found(ocipod, f"aci:{work}/x.aci").names == (f"aci:{work}/x.aci",)


def test_gnu_tar_makes_it(ocipod: Ocipod, work: Path) -> None:
    """Sparse files, long names and extended attributes, as GNU tar writes them."""
    tree = work / "tree" / "rootfs"
    make_tree(tree)
    with (tree / "sparse").open("wb") as file:
        file.seek(1 << 20)
        file.write(b"end")
    manifest = json.dumps(aci.manifest("example.com/app"))
    (work / "tree" / "manifest").write_text(manifest)
    command = ["tar", "--sparse", "--xattrs", "-czf", f"{work}/x.aci", "-C", f"{work}/tree"]
    subprocess.run([*command, "manifest", "rootfs"], check=True, capture_output=True)
    ocipod("fetch", f"{work}/x.aci").ok()
    made = rendered(ocipod, "example.com/app:1.0")
    assert sorted(os.listdir(made)) == sorted(os.listdir(tree))
    assert (made / "sparse").read_bytes() == (tree / "sparse").read_bytes()
    assert os.getxattr(made / "file", "user.key") == b"\xff\0value"
