"""Layers: whatever an archive contains, only the tree changes.

The first byte of an input selects the form: 0 a tar archive, 1 with repaired checksums, 2 and 3 the
same compressed with gzip, 4 with zstd, 5 a compressed stream.  Bit 8 adds a lower layer.
"""

from __future__ import annotations

import gzip
import io
import os
import random
import tarfile
from collections.abc import Iterator
from pathlib import Path

import zstandard

from ociruntime.images.model.image_limits import Limits
from tests.fuzz.mutation import change_tar, repaired
from tests.fuzz.target import Target, empty_directory, refusals
from tests.support.images import Content, compress, member, pack
from tests.unit.images.trees import apply, apply_stored

LIMITS = Limits(bytes=1 << 20, files=200, depth=12, names=1 << 20, floor=1 << 18)
_LOWER = pack({"a/": "", "a/b": "lower", "c": member(tarfile.SYMTYPE, linkname="a"), "d": "x"})


def _outside(path: Path) -> dict[str, object]:
    """Return all properties of the directory ``out`` that could change; create it at first."""
    out = path / "out"
    if not out.exists():
        (out / "a").mkdir(parents=True)
        (out / "a/b").write_text("safe")
        (out / "c").symlink_to("a")
    found: dict[str, object] = {}
    for one in (out, out / "a", out / "a/b", out / "c"):
        facts = one.lstat()
        attributes = os.listxattr(one, follow_symlinks=False)
        found[str(one)] = facts.st_mode, facts.st_uid, facts.st_nlink, facts.st_mtime_ns, attributes
    names = sorted(name for name in os.listdir(path) if name != "tree")
    return found | {
        "text": (out / "a/b").read_text(),
        "names": names,
        "above": path.lstat().st_mode,
    }


def _check_tree(root: Path) -> None:
    """Check that the tree does not exceed the limits, and that no whiteout is left."""
    count = 0
    for directory, directories, names in os.walk(os.fsencode(root)):
        count += len(directories) + len(names)
        assert not any(name.startswith(b".wh.") for name in directories + names)
        depth = directory.count(b"/") - os.fsencode(root).count(b"/")
        assert depth <= LIMITS.depth, f"{depth} levels"
    assert count <= LIMITS.files, f"{count} files"


def _stored(form: int, data: bytes) -> tuple[bytes, bytes]:
    """Return (the uncompressed tar archive or its substitute for the digest, the stored layer)."""
    plain = repaired(data) if form & 1 else data
    if form in (2, 3):
        return plain, gzip.compress(plain, 1, mtime=0)
    if form == 4:
        return plain, zstandard.compress(plain, 1)
    if form == 5:
        return data, data
    return plain, plain


def run(data: bytes) -> None:
    if not data:
        return
    place = empty_directory("layer")
    root = place / "tree"
    before = _outside(place)
    descriptors = len(os.listdir("/proc/self/fd"))
    if data[0] & 8:
        apply(root, _LOWER, limits=LIMITS)
    with refusals():
        apply_stored(root, [_stored(data[0] & 7, data[1:])], LIMITS)
        _check_tree(root)  # of a layer that is refused, the caller removes what there is
    assert _outside(place) == before, "something outside the tree has changed"
    assert len(os.listdir("/proc/self/fd")) == descriptors, "a descriptor is left open"


def _pax(**records: str) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as tar:
        info = tarfile.TarInfo("a")
        info.size, info.pax_headers = (
            3,
            {key.replace("__", "."): text for key, text in records.items()},
        )
        tar.addfile(info, io.BytesIO(b"abc"))
    return made.getvalue()


def _tars() -> Iterator[bytes]:
    up = "/".join([".."] * 12)
    files: tuple[dict[str, Content], ...] = (
        {"a": "x", "b/": "", "b/c": "y"},
        {"a": member(tarfile.SYMTYPE, linkname=f"{up}/tmp"), "a/x": "1"},
        {"a": member(tarfile.SYMTYPE, linkname="../out"), "a/a/b": "1", "e/../../out/z": "2"},
        {
            "a": "x",
            "b": member(tarfile.LNKTYPE, linkname="a"),
            "c": member(tarfile.LNKTYPE, linkname="../out/a/b"),
        },
        {"a/.wh.b": "", ".wh.d": "", "a/.wh..wh..opq": ""},
        {"n": member(tarfile.CHRTYPE, devmajor=1, devminor=3), "p": member(tarfile.FIFOTYPE)},
        {"x" * 120 + "/y": "long"},
        {"l": member(tarfile.SYMTYPE, linkname="t" * 120)},
    )
    for one in files:
        yield pack(one)
    yield _pax(SCHILY__xattr__user__a="1", mtime="1.25", path="p/q")
    yield _pax(GNU__sparse__major="1", GNU__sparse__minor="0", GNU__sparse__realsize="9")
    yield _pax(GNU__sparse__size="9", GNU__sparse__map="0,3", GNU__sparse__numblocks="1")
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.GNU_FORMAT) as tar:
        info = tarfile.TarInfo("g" * 130)
        info.linkname, info.type = "k" * 130, tarfile.SYMTYPE
        tar.addfile(info)
    yield made.getvalue()


def seeds() -> Iterator[bytes]:
    for at, tar in enumerate(_tars()):
        yield bytes([1 | (8 if at % 2 else 0)]) + tar.rstrip(b"\0") + bytes(1024)
        yield bytes([3]) + tar[:3072]
    small = pack({"a": "x"})[:2560]
    for kind in ("gzip", "zstd"):
        yield bytes([5]) + compress(small, kind)
    yield bytes([4]) + small
    yield bytes([5]) + compress(small, "gzip") + compress(small, "gzip") + bytes(9)


def mutate(data: bytes, rng: random.Random) -> bytes:
    form = data[0] if data and rng.random() < 0.9 else rng.choice((0, 1, 1, 3, 4, 5, 9, 11))
    if form & 7 == 5:
        at = rng.randrange(1, len(data)) if len(data) > 1 else 0
        return bytes([form]) + data[1:at] + rng.randbytes(rng.choice((0, 1, 2))) + data[at + 1 :]
    return bytes([form]) + change_tar(data[1:], rng)


TARGET = Target(
    run,
    (
        "images/tar/tar_header.py",
        "images/tar/tar_reader.py",
        "images/tar/decompression.py",
        "images/tar/file_attributes.py",
        "images/unpack/unpack.py",
        "images/unpack/tree_paths.py",
    ),
    seeds,
    mutate,
)
