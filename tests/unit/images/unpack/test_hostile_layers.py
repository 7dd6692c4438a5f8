"""Deliberately hostile archives: whatever they contain, only the tree changes."""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ociruntime.base.errors import RuntimeFailure
from ociruntime.images.model.image_limits import Limits
from tests.support.images import Content, member, pack
from tests.unit.images.trees import apply, contents

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: files get their owners")

Entry = tuple[str, Content]
LIMITS = Limits(bytes=1 << 20, files=200, depth=12)
SETTINGS = settings(deadline=None, max_examples=150)

PARTS = ["a", "b", "c", ".", "..", "", "out", ".wh.a", ".wh.b", ".wh..wh..opq", ".wh.", ".wh..",
         ".wh...", ".wh..wh.x", "\udcff", "*", " "]  # fmt: skip
UP = "/".join([".."] * 12)


def canary(path: Path) -> dict[str, object]:
    """Return all properties of the directory ``out`` that could change; create it if missing."""
    out = path / "out"
    if not out.exists():
        (out / "a").mkdir(parents=True)
        (out / "a/b").write_text("safe")
        (out / "c").symlink_to("a")
    found: dict[str, object] = {}
    for one in (path, out, out / "a", out / "a/b", out / "c"):
        facts = one.lstat()
        found[str(one)] = (
            facts.st_mode,
            facts.st_uid,
            facts.st_nlink if one != path else 0,
            facts.st_mtime_ns if one != path else 0,
            os.listxattr(one, follow_symlinks=False),
        )
    return found | {"text": (out / "a/b").read_text(), "names": sorted(os.listdir(path))}


names = st.lists(st.sampled_from(PARTS), max_size=5).map("/".join)
plain = st.lists(st.sampled_from(PARTS[:7]), max_size=5).map("/".join)
targets = st.one_of(
    plain,
    plain.map(lambda name: f"/{name}"),
    plain.map(lambda name: f"{UP}/{name}"),
    st.just("OUT"),
    st.just("OUT/a"),
    st.just("OUT/a/b"),
)


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    name = draw(st.one_of(names, targets))
    kind = draw(st.sampled_from("fffdddssshpc?"))
    if kind == "f":
        return name, draw(st.sampled_from(["", "x", "hostile" * 100]))
    if kind == "d":
        return name, member(tarfile.DIRTYPE, mode=draw(st.sampled_from([0, 0o755, 0o7777])))
    if kind in "sh":
        type = tarfile.SYMTYPE if kind == "s" else tarfile.LNKTYPE
        return name, member(type, linkname=draw(targets))
    types = {"p": tarfile.FIFOTYPE, "c": tarfile.CHRTYPE, "?": b"D"}
    return name, member(types[kind], uid=draw(st.sampled_from([0, 5])), devmajor=1, devminor=3)


def packed(layer: list[Entry], out: Path) -> bytes:
    """Return several archives, joined: a dictionary cannot hold members of the same name.

    ``OUT`` stands for the absolute path of the canary.
    """
    archives = []
    for name, content in layer:
        if isinstance(content, tarfile.TarInfo):
            content.linkname = content.linkname.replace("OUT", str(out))
        archives.append(pack({name.replace("OUT", str(out)) or "/": content}))
    return b"".join(one[: _end(one)] for one in archives) + bytes(1024)


def _end(archive: bytes) -> int:
    """Return the offset of the zeros that end the archive."""
    end = len(archive)
    while end >= 512 and archive[end - 512 : end] == bytes(512):
        end -= 512
    return end


@SETTINGS
@given(st.lists(st.lists(entries(), max_size=8), min_size=1, max_size=3))
@example([[("a", member(tarfile.SYMTYPE, linkname="OUT")), ("a/new", "x")]])
@example([[("a", member(tarfile.SYMTYPE, linkname="OUT"))], [("a/a/.wh..wh..opq", "")]])
@example([[("a", member(tarfile.SYMTYPE, linkname="OUT")), ("a/.wh.c", "")]])
@example([[("a", member(tarfile.SYMTYPE, linkname="OUT")), ("a", member(tarfile.DIRTYPE, mode=0))]])
@example([[("a", member(tarfile.SYMTYPE, linkname="OUT/a/b")), ("a", "x")]])
@example([[("a", member(tarfile.LNKTYPE, linkname="OUT/a/b")), ("a", "x")]])
@example([[("b", member(tarfile.SYMTYPE, linkname=UP)), ("b/out/a/b", "x")]])
@example([[("b", member(tarfile.SYMTYPE, linkname="OUT/a/b")),
           ("c", member(tarfile.LNKTYPE, linkname="b")), ("c", "x")]])  # fmt: skip
def test_nothing_outside_changes(layers: list[list[Entry]]) -> None:
    path = Path(tempfile.mkdtemp(prefix="ociruntime-hostile-"))
    try:
        (path / "root").mkdir()
        before = canary(path)
        for layer in layers:
            try:
                apply(path / "root", packed(layer, path / "out"), limits=LIMITS)
            except RuntimeFailure:
                break
        assert canary(path) == before
        for name in contents(path / "root"):
            assert ".wh." not in name
    finally:
        shutil.rmtree(path)


GOOD = pack(
    {
        "d/": "",
        "d/f": "content" * 100,
        "long/" * 40 + "name": "x",
        "s": member(tarfile.SYMTYPE, linkname="d/f"),
        "h": member(tarfile.LNKTYPE, linkname="d/f"),
        "d/.wh.x": "",
    }
)


@SETTINGS
@given(st.data())
def test_damaged_archives_are_refused_or_read(data: st.DataObject) -> None:
    """They raise only our own exceptions, and change nothing outside."""
    archive = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(archive) - 1))
        archive[at] = data.draw(st.integers(0, 255))
        block = at // 512 * 512
        if data.draw(st.booleans()):  # so that it comes further than the checksum
            archive[block + 148 : block + 156] = b" " * 8
            archive[block + 148 : block + 156] = b"%06o\0 " % sum(archive[block : block + 512])
    path = Path(tempfile.mkdtemp(prefix="ociruntime-hostile-"))
    try:
        (path / "root").mkdir()
        before = canary(path)
        with suppress(RuntimeFailure):
            apply(path / "root", bytes(archive), limits=LIMITS)
        assert canary(path) == before
    finally:
        shutil.rmtree(path)


Tree = dict[str, str]
simple = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map("/".join)
changes = st.lists(
    st.tuples(st.sampled_from(["file", "directory", "whiteout", "opaque"]), simple), max_size=8
)


def model(lower: Tree, layer: list[tuple[str, str]]) -> Tree | None:
    """Return what a layer without links makes of a tree; None if it must be refused."""
    mine: Tree = {}
    lower = dict(lower)

    def drop(tree: Tree, name: str, itself: bool) -> None:
        for other in list(tree):
            if other.startswith(f"{name}/") or (itself and other == name):
                del tree[other]

    for kind, name in layer:
        parents = [name.rsplit("/", count)[0] for count in range(name.count("/"), 0, -1)]
        seen = lower | mine
        if any(seen.get(parent, "/") != "/" for parent in parents):
            return None
        if kind == "opaque":
            if seen.get(name, "/") != "/":
                return None
            drop(lower, name, itself=False)
        elif kind == "whiteout":
            drop(lower, name, itself=True)
        else:
            for parent in parents:
                mine[parent] = "/"
            if kind == "file" or seen.get(name) != "/":
                drop(lower, name, itself=True)
                drop(mine, name, itself=True)
            mine[name] = "/" if kind == "directory" else "x"
    return lower | mine


def as_entry(kind: str, name: str) -> Entry:
    if kind == "opaque":
        return f"{name}/.wh..wh..opq", ""
    parent, _, last = name.rpartition("/")
    if kind == "whiteout":
        return f"{parent}/.wh.{last}".removeprefix("/"), ""
    return (name, "x") if kind == "file" else (f"{name}/", "")


@SETTINGS
@given(st.lists(changes, min_size=1, max_size=3))
@example([[("file", "a/a")], [("whiteout", "a/a"), ("file", "a/a/a"), ("whiteout", "a")]])
def test_layers_are_what_the_specification_says(layers: list[list[tuple[str, str]]]) -> None:
    path = Path(tempfile.mkdtemp(prefix="ociruntime-hostile-"))
    try:
        expected: Tree = {}
        for layer in layers:
            result = model(expected, layer)
            data = packed([as_entry(*one) for one in layer], path)
            if result is None:
                with pytest.raises(RuntimeFailure):
                    apply(path / "root", data, limits=LIMITS)
                return
            apply(path / "root", data, limits=LIMITS)
            expected = result
            assert contents(path / "root") == expected
    finally:
        shutil.rmtree(path)
