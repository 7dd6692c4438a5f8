"""Compressed data of several parts, with padding or junk behind it, and dictionaries too large."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
from collections.abc import Callable

import pytest

from ociruntime.base.errors import ImageError
from ociruntime.images.model.image_limits import Budget, Limits
from ociruntime.images.tar import decompression
from ociruntime.images.tar.decompression import decompressed
from tests.support.images import compress
from tests.unit.images.trees import FREE

KINDS = ("xz", "bzip2", "gzip", "zstd")
DATA = bytes(range(256)) * 1000
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "xz": lzma.compress,
    "bzip2": bz2.compress,
    "gzip": gzip.compress,
}


def read_all(stored: bytes, limits: Limits | None = None) -> bytes:
    budget = Budget(limits or Limits(), lambda: (FREE, FREE))
    stream = decompressed(io.BytesIO(stored), budget, "it", KINDS)
    found = b""
    while chunk := stream.read(1 << 20):
        found += chunk
    return found


@pytest.mark.parametrize("kind", ["xz", "bzip2"])
@pytest.mark.parametrize("behind", [b"", bytes(100_000), b"junk" * 9, bytes(512) + b"junk"])
def test_junk_behind_the_last_part_is_ignored(kind: str, behind: bytes) -> None:
    """xz(1) and tar(1) read such archives, too."""
    parts = COMPRESS[kind](b"first") + COMPRESS[kind](DATA)
    assert read_all(parts + behind) == b"first" + DATA


def test_a_magic_number_in_two_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The input read so far ends within the next part's magic number."""
    first = lzma.compress(b"first")
    monkeypatch.setattr(decompression, "CHUNK", len(first) + 2)
    assert read_all(first + lzma.compress(DATA)) == b"first" + DATA


@pytest.mark.parametrize("kind", COMPRESS)
def test_too_many_parts(kind: str) -> None:
    limits = Limits(files=3)
    assert read_all(COMPRESS[kind](b"x") * 3, limits) == b"xxx"
    with pytest.raises(ImageError, match=f"it: the {kind} data has .* than 3 parts") as caught:
        read_all(COMPRESS[kind](b"x") * 4, limits)
    assert '"files"' in caught.value.hint


@pytest.mark.parametrize("kind", COMPRESS)
def test_data_that_is_cut_off_or_changed(kind: str) -> None:
    stored = COMPRESS[kind](DATA)
    for length in (7, len(stored) // 2, len(stored) - 1):
        with pytest.raises(ImageError, match=f"it: the {kind} data is truncated"):
            read_all(stored[:length])
    middle = len(stored) // 2
    with pytest.raises(ImageError, match=f"it: the {kind} data is damaged: "):
        read_all(stored[:middle] + b"\xff\0\xff\0" + stored[middle + 4 :])


def test_dictionaries_that_are_too_large() -> None:
    limits = Limits(dictionary=1 << 20)
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 64 << 20}]
    for kind, stored in (
        ("xz", lzma.compress(DATA, filters=filters)),
        ("zstd", _zstd_with_window(27)),
    ):
        message = f"it: the {kind} data needs .* dictionary larger than 1048576 bytes"
        with pytest.raises(ImageError, match=message) as caught:
            read_all(stored, limits)
        assert '"dictionary"' in caught.value.hint


def _zstd_with_window(log: int) -> bytes:
    zstandard = pytest.importorskip("zstandard")
    parameters = zstandard.ZstdCompressionParameters(window_log=log)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    stored: bytes = compressor.compress(DATA) + compressor.flush()
    return stored


def test_zstd_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = compress(DATA, "zstd")
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ImageError, match="it: zstd compression needs the Python package") as caught:
        read_all(stored)
    assert "pip install zstandard" in caught.value.hint


def test_a_skippable_frame_at_the_beginning_is_zstd() -> None:
    frame = (0x184D2A50).to_bytes(4, "little") + (3).to_bytes(4, "little") + b"abc"
    assert decompression.compression_of(frame) == "zstd"
    assert read_all(frame + compress(DATA, "zstd")) == DATA


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("a fault of ours")])
def test_errors_that_say_nothing_about_the_data(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(_: decompression.Gunzip, size: int) -> bytes:
        del size
        raise error

    monkeypatch.setattr(decompression.Gunzip, "step", fail)
    with pytest.raises(type(error)):
        read_all(gzip.compress(DATA))
