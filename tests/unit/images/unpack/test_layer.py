"""Layers unpacked into a directory: files created, hidden and replaced."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from pathlib import Path

import pytest

from ociruntime.base.errors import ImageError
from ociruntime.images.model.image_limits import Limits
from ociruntime.images.unpack import tree_paths
from tests.support.images import Content, member, pack
from tests.unit.images.trees import apply, contents

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: files get their owners")


def link(target: str) -> tarfile.TarInfo:
    return member(tarfile.SYMTYPE, linkname=target, mode=0o777)


def attribute(name: str, value: str) -> tarfile.TarInfo:
    return member(tarfile.REGTYPE, pax_headers={f"SCHILY.xattr.{name}": value})


def hard(target: str) -> tarfile.TarInfo:
    return member(tarfile.LNKTYPE, linkname=target)


BASE: dict[str, Content] = {
    "d/": "",
    "d/one": "1",
    "d/two": "2",
    "d/e/": "",
    "d/e/deep": "3",
    "file": "f",
    "link": link("d"),
}


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        ({"d/.wh.one": ""}, {"d": "/", "d/two": "2", "d/e": "/", "d/e/deep": "3"}),
        ({"d/.wh.e": ""}, {"d": "/", "d/one": "1", "d/two": "2"}),
        ({".wh.d": ""}, {}),
        ({"d/.wh..wh..opq": ""}, {"d": "/"}),
        ({"d/new": "n", "d/.wh..wh..opq": ""}, {"d": "/", "d/new": "n"}),
        ({"d/.wh..wh..opq": "", "d/new": "n"}, {"d": "/", "d/new": "n"}),
        ({"d/e/new": "n", "d/.wh..wh..opq": ""}, {"d": "/", "d/e": "/", "d/e/new": "n"}),
        ({"d/": "", "d/new": "n", ".wh.d": ""}, {"d": "/", "d/new": "n"}),
        ({".wh.d": "", "d/new": "n"}, {"d": "/", "d/new": "n"}),
        ({"d/one": "n", "d/.wh.one": ""}, {"d/one": "n"}),
        ({"d": "no directory now"}, {"d": "no directory now"}),
        ({"d/one/": "", "d/one/x": "x"}, {"d/one": "/", "d/one/x": "x"}),
        ({"d/.wh.nothing": "", "nowhere/.wh.x": ""}, {}),
        ({"d/.wh..wh.plnk": "x", ".wh..wh.aufs/x": ""}, {}),
        ({"/abs": "a", "./dot/./x": "x"}, {"abs": "a", "dot": "/", "dot/x": "x"}),
        ({"link/new": "n"}, {"d/new": "n", "link": "-> d"}),
        ({"link/.wh.one": ""}, {"d/two": "2", "link": "-> d"}),
        ({"link/": "", "link/x": "x"}, {"link": "/", "link/x": "x", "d/one": "1"}),
        ({"link": "file now"}, {"link": "file now", "d/one": "1"}),
        ({"h": hard("file")}, {"h": "f", "file": "f"}),
        ({"file": "g", "h": hard("./file")}, {"h": "g", "file": "g"}),
        ({"h": hard("link/one")}, {"h": "1"}),
        ({"h": hard("link")}, {"h": "-> d"}),
        ({"file": hard("file")}, {"file": "f"}),
        ({"x": link("../../../.."), "x/y": "y"}, {"x": "-> ../../../..", "y": "y"}),
        (
            {"x": link("/made/here"), "x/y": "y"},
            {"made": "/", "made/here": "/", "made/here/y": "y"},
        ),
    ],
)
def test_second_layer(tmp_path: Path, layer: dict[str, Content], expected: dict[str, str]) -> None:
    apply(tmp_path / "root", pack(BASE), pack(layer))
    found = contents(tmp_path / "root")
    untouched = {
        name: text for name, text in {"file": "f", "link": "-> d"}.items() if name not in expected
    }
    assert {name: found.get(name) for name in expected | untouched} == expected | untouched
    if "d/" in layer or any(name.startswith((".wh.", "d/.wh.")) for name in layer):
        inside = {name for name in found if name.startswith("d/")}
        wanted = {name for name in expected if name.startswith("d/")}
        plain = {"d/one", "d/two", "d/e", "d/e/deep"}
        assert inside <= wanted | plain
    assert sorted(os.listdir(tmp_path)) == ["root"]
    assert not [name for name in found if ".wh." in name]


def test_what_whiteouts_leave(tmp_path: Path) -> None:
    """Exactly: nothing of the lower layer, everything of their own layer."""
    apply(tmp_path / "r", pack(BASE), pack({"d/e/new": "n", "d/.wh..wh..opq": ""}))
    assert contents(tmp_path / "r") == {
        "d": "/",
        "d/e": "/",
        "d/e/new": "n",
        "file": "f",
        "link": "-> d",
    }
    apply(tmp_path / "r", pack({".wh.d": "", ".wh.link": "", ".wh.file": ""}))
    assert contents(tmp_path / "r") == {}


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ({"../out": "x"}, '"../out"'),
        ({"a/../../out": "x"}, "is not allowed"),
        ({"d/../out": "x"}, "is not allowed"),
        ({"h": hard("../../etc/passwd")}, "is not allowed"),
        ({"h": hard("/etc/passwd")}, 'target "/etc/passwd" does not exist'),
        ({"h": hard("d")}, "its target is a directory"),
        ({"h": hard("")}, "is a directory|does not exist"),
        ({"file/x": "x"}, '"file", the parent .* not a directory'),
        ({"s": link("s"), "s/x": "x"}, "many symbolic links"),
        ({"a/": "", "s": link("a/../" * 700), "s/x": "x"}, "more than 1024 components"),
        ({"s": link("")}, "empty target"),
        ({".wh.": ""}, 'invalid whiteout ".wh."'),
        ({".wh..": ""}, "invalid whiteout"),
        ({".wh...": ""}, "invalid whiteout"),
        ({"d/.wh...": ""}, "invalid whiteout"),
        ({".wh.d/x": ""}, "below a whiteout"),
        ({".": "x"}, 'root "." is not a directory'),
        ({"x": member(b"Z")}, "member type"),
        ({"x": member(tarfile.REGTYPE, uid=(1 << 32) - 1)}, "invalid owner"),
        ({"x": member(tarfile.REGTYPE, uid=-1)}, "'-1' in a pax"),
        ({"x" * 300: "x"}, 'unpack "x+": file name too long'),
        ({"s": link("x" * 5000)}, 'unpack "s": file name too long'),
        ({"a": attribute("user.x", "v" * 70_000)}, 'unpack "a": argument list too long'),
        ({"a": attribute("user." + "x" * 300, "v")}, 'unpack "a": numerical result out'),
        ({"a": attribute("security.capability", "v")}, 'unpack "a": invalid argument'),
        ({"x/" * 300: ""}, "more than 256 deep"),
        ({"x/" * 2100: ""}, ": 4200 bytes"),
    ],
)
def test_refused(tmp_path: Path, layer: dict[str, Content], message: str) -> None:
    canary = tmp_path / "out"
    canary.write_text("safe")
    with pytest.raises(Exception, match=message) as caught:
        apply(tmp_path / "root", pack(BASE), pack(layer))
    assert type(caught.value).__name__ in ("ImageError", "HostError")
    assert canary.read_text() == "safe"
    assert sorted(os.listdir(tmp_path)) == ["out", "root"]


def test_links_cannot_nest_directories_without_end(tmp_path: Path) -> None:
    """Through a link, a short name may lead to a deep directory."""
    deep = "/".join("x" * 100)
    layer: dict[str, Content] = {f"{deep}/": ""}
    for number in range(3):
        place = f"s{number - 1}/{deep}" if number else deep
        layer[f"s{number}"] = link(place)
        layer[f"s{number}/{deep}/"] = ""
    with pytest.raises(ImageError, match="more than 256 deep"):
        apply(tmp_path / "root", pack(layer))


def test_metadata(tmp_path: Path) -> None:
    layer = pack(
        {
            "./": member(tarfile.DIRTYPE, mode=0o751, uid=7, mtime=1000),
            "d/": member(tarfile.DIRTYPE, mode=0o2755, uid=1, gid=2, mtime=1_000_000_000.25),
            "d/f": member(tarfile.REGTYPE, mode=0o4755, uid=3, gid=4, mtime=2_000_000_000.5),
            "d/l": member(tarfile.SYMTYPE, linkname="x", uid=5, gid=6, mtime=10),
            "d/p": member(tarfile.FIFOTYPE, mode=0o622, uid=8, mtime=20),
            "old": member(tarfile.REGTYPE, mtime=-5, uid=4_000_000_000),
        }
    )
    root = tmp_path / "r"
    apply(root, layer)
    facts = {name: os.lstat(root / name) for name in ("", "d", "d/f", "d/l", "d/p", "old")}
    shown = {name: (one.st_uid, one.st_gid, one.st_mtime) for name, one in facts.items()}
    assert shown == {
        "": (7, 0, 1000),
        "d": (1, 2, 1_000_000_000.25),
        "d/f": (3, 4, 2_000_000_000.5),
        "d/l": (5, 6, 10),
        "d/p": (8, 0, 20),
        "old": (4_000_000_000, 0, -5),
    }
    modes = {name: stat.S_IMODE(one.st_mode) for name, one in facts.items()}
    assert modes["d"] == 0o2755
    assert modes["d/f"] == 0o4755
    assert modes["d/p"] == 0o622
    assert modes[""] == 0o751
    assert stat.S_ISFIFO(facts["d/p"].st_mode)


def test_a_mask_changes_nothing(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        apply(tmp_path / "r", pack({"made/for/it": "x", "d/": member(tarfile.DIRTYPE, mode=0o777)}))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "r/made/for").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "r/d").stat().st_mode) == 0o777


def test_hard_links_share(tmp_path: Path) -> None:
    apply(tmp_path / "r", pack({"a": "x", "b": hard("a")}), pack({"c": hard("/a")}))
    assert (tmp_path / "r/a").stat().st_nlink == 3
    apply(tmp_path / "r", pack({"a": "new"}))
    assert (tmp_path / "r/b").read_text() == "x", "a file is replaced, never written into"


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (Limits(files=4), "more than 4 files"),  # three, and two directories on their way
        (Limits(bytes=5), "more than 5 bytes of files"),
        (Limits(files=2), "more than 2 files"),
        (Limits(depth=1), "more than 1 deep"),
    ],
)
def test_limits(tmp_path: Path, limits: Limits, message: str) -> None:
    with pytest.raises(ImageError, match=message):
        apply(tmp_path / "r", pack({"a": "xxx", "b/c/d": "xxx", "e": ""}), limits=limits)


def test_depth_of_a_directory_with_its_own_header(tmp_path: Path) -> None:
    apply(tmp_path / "r", pack({"a/b/": ""}), limits=Limits(depth=2))
    with pytest.raises(ImageError, match="more than 2 deep"):
        apply(tmp_path / "r", pack({"a/b/c/": ""}), limits=Limits(depth=2))


def test_directories_that_only_names_mention(tmp_path: Path) -> None:
    """Each is created: a header of some hundred bytes could create as many."""
    layer: dict[str, Content] = {f"{n}/{'a/' * 200}f": "" for n in range(20)}
    with pytest.raises(ImageError, match="more than 100 files"):
        apply(tmp_path / "r", pack(layer), limits=Limits(files=100))
    made = sum(len(below) for _, below, _ in os.walk(tmp_path / "r"))
    assert made <= 100
    apply(tmp_path / "s", pack({"a/b/c": "", "a/b/d": ""}), limits=Limits(files=4))


def test_whiteouts_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would list every file: 4,000 of both took half a minute."""
    listed = []
    listdir = os.listdir

    def counted(path: bytes) -> list[bytes]:
        listed.append(path)
        return listdir(path)

    monkeypatch.setattr(os, "listdir", counted)
    layer: dict[str, Content] = {f"d/file{number}": "x" for number in range(20)}
    for number in range(20):
        layer |= {f"{'./' * number}d/.wh..wh..opq": "", f"{'./' * number}.wh.d": ""}
    apply(tmp_path / "root", pack(BASE), pack(layer))
    assert len(listed) == 1
    assert len(contents(tmp_path / "root")) > 20


def test_attributes_of_a_global_header_are_paid_for(tmp_path: Path) -> None:
    """A header of a kilobyte applies to each file after it."""
    packed = io.BytesIO()
    headers = {"SCHILY.xattr.user.note": "x" * 1000}
    with tarfile.open(
        fileobj=packed, mode="w", format=tarfile.PAX_FORMAT, pax_headers=headers
    ) as archive:
        for number in range(50):
            archive.addfile(tarfile.TarInfo(f"file{number}"))
    with pytest.raises(ImageError, match="more than 20000 bytes of files"):
        apply(tmp_path / "root", packed.getvalue(), limits=Limits(bytes=20000))


def test_links_that_lead_up_and_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_paths, "MOST_LAYER_STEPS", 100)
    layer: dict[str, Content] = {"a/": "", "b/": "", "up": link("a/../" * 20 + "a")}
    for number in range(10):
        layer |= {f"up/file{number}": "", f"b/file{number}": ""}
    with pytest.raises(ImageError, match="100 components"):
        apply(tmp_path / "root", pack(layer))
