"""Compressed layers: valid, damaged, and decompression bombs."""

from __future__ import annotations

import gzip
import io
import os
from pathlib import Path

import pytest

from ociruntime.base.errors import ImageError
from ociruntime.images.model.image_limits import Budget, Limits
from ociruntime.images.tar.decompression import Counted, decompressed
from tests.support.images import compress, pack
from tests.unit.images.trees import FREE, apply_stored, contents

DATA = bytes(range(256)) * 5000
NOISE = os.urandom(100_000)
BUDGET = Budget(Limits(), lambda: (FREE, FREE))


def read_all(stored: bytes, size: int = 100_000) -> bytes:
    stream = decompressed(io.BytesIO(stored), BUDGET)
    found = b""
    while chunk := stream.read(size):
        assert len(chunk) <= size
        found += chunk
    return found


class Trickle:
    """A stream that returns one byte at a time."""

    def __init__(self, data: bytes) -> None:
        self.stream = io.BytesIO(data)

    def read(self, size: int, /) -> bytes:
        return self.stream.read(min(size, 1))


@pytest.mark.parametrize("kind", ["", "gzip", "zstd"])
@pytest.mark.parametrize("data", [b"", b"x", DATA, NOISE], ids=["none", "one", "text", "noise"])
def test_whole(kind: str, data: bytes) -> None:
    assert read_all(compress(data, kind)) == data


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_several_parts(kind: str) -> None:
    """Parallel compressors, and those for lazy pulling, write them."""
    stored = compress(b"first", kind) + compress(b"", kind) + compress(DATA, kind)
    assert read_all(stored) == b"first" + DATA


@pytest.mark.parametrize("kind", ["", "gzip", "zstd"])
def test_slow_streams(kind: str) -> None:
    stream = decompressed(Trickle(compress(b"some text", kind)), BUDGET)
    found = b""
    while chunk := stream.read(4):
        found += chunk
    assert found == b"some text"


def test_zeros_behind_gzip_are_padding() -> None:
    assert read_all(gzip.compress(b"x") + bytes(1000)) == b"x"


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (gzip.compress(NOISE)[:-1], "is truncated"),
        (gzip.compress(NOISE)[:50_000], "is truncated"),
        (gzip.compress(NOISE)[:-8] + b"x" * 8, "the layer: the gzip data is damaged"),
        (gzip.compress(b"x") + b"junk", "is damaged"),
        (compress(b"x", "zstd")[:4] + b"\xff" * 100, "the layer: .*zstd"),
        (compress(b"x", "zstd") + b"junk", "is damaged"),
    ],
)
def test_damage(stored: bytes, message: str) -> None:
    with pytest.raises(ImageError, match=message):
        read_all(stored)


def test_counting() -> None:
    counted = Counted(io.BytesIO(b"abcdef"))
    counted.read(2)
    counted.read(10)
    assert counted.count == 6


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: files get their owners")


@needs_root
@pytest.mark.parametrize("kind", ["gzip", "zstd"])
@pytest.mark.parametrize("hidden", ["file", "padding"])
def test_bombs(tmp_path: Path, kind: str, hidden: str) -> None:
    """The zeros are in a file or behind the archive's end."""
    zeros = bytes(20 << 20)
    plain = pack({"zeros": zeros}) if hidden == "file" else pack({"a": ""}) + zeros
    stored = compress(plain, kind)
    limits = Limits(floor=1 << 20, ratio=50)
    with pytest.raises(ImageError, match="a decompression bomb"):
        apply_stored(tmp_path / "root", [(plain, stored)], limits)
    used = sum(path.stat().st_size for path in (tmp_path / "root").iterdir())
    assert used < 8 << 20
    apply_stored(tmp_path / "root2", [(plain, stored)], Limits(floor=64 << 20))


@needs_root
@pytest.mark.parametrize("kind", ["", "gzip", "zstd"])
def test_the_content_has_to_have_its_digest(tmp_path: Path, kind: str) -> None:
    plain, other = pack({"a": "1"}), pack({"a": "2"})
    apply_stored(tmp_path / "root", [(plain, compress(plain, kind))])
    assert contents(tmp_path / "root") == {"a": "1"}
    with pytest.raises(ImageError, match="digest mismatch"):
        apply_stored(tmp_path / "root", [(plain, compress(other, kind))])
    longer = compress(plain + bytes(512), kind)
    with pytest.raises(ImageError, match="digest mismatch"):
        apply_stored(tmp_path / "root", [(plain, longer)])


@needs_root
def test_a_zstd_layer_that_ends_too_early_is_refused(tmp_path: Path) -> None:
    plain = pack({"noise": NOISE, "a": "1"})
    stored = compress(plain, "zstd")
    for length in (5, 20_000, 99_000, len(stored) - 30):
        with pytest.raises(ImageError):
            apply_stored(tmp_path / "root", [(plain, stored[:length])])
