"""Tar archives of all formats, valid and damaged."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from ociruntime.base.errors import ImageError
from ociruntime.images.tar.tar_header import Header, apply_records, number, parse_records
from ociruntime.images.tar.tar_reader import TarReader
from tests.support.images import member, pack
from tests.unit.images.trees import apply

FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}


def read_all(data: bytes) -> list[tuple[Header, bytes]]:
    reader = TarReader(io.BytesIO(data))
    found = []
    for header in reader:
        content = b""
        while chunk := reader.read(7):
            content += chunk
        found.append((header, content))
    return found


def archive(format: int, *members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=format) as tar:
        for header, content in members:
            header.size = len(content)
            tar.addfile(header, io.BytesIO(content))
    return buffer.getvalue()


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("length", [1, 99, 100, 101, 154, 155, 156, 250, 600])
def test_names_of_every_length(format: str, length: int) -> None:
    name = ("abcdefg/" * 100)[: length - 1] + "x"
    if format == "ustar" and length > 255:
        pytest.skip("ustar has no longer names")
    one = (member(tarfile.REGTYPE, name=name), b"content")
    two = (member(tarfile.SYMTYPE, name="l", linkname=name[:100]), b"")
    found = read_all(archive(FORMATS[format], one, two))
    assert [(header.name, header.link) for header, _ in found] == [
        (name.encode(), b""),
        (b"l", name[:100].encode()),
    ]
    assert found[0][1] == b"content"


@pytest.mark.parametrize("format", FORMATS)
def test_values(format: str) -> None:
    given = member(
        tarfile.CHRTYPE, name="dev", mode=0o4755, uid=12, gid=34, mtime=99, devmajor=5, devminor=1
    )
    ((header, _),) = read_all(archive(FORMATS[format], (given, b"")))
    assert (header.mode, header.uid, header.gid) == (0o4755, 12, 34)
    assert (header.mtime, header.major, header.minor) == (99 * 10**9, 5, 1)


@pytest.mark.parametrize("format", ["gnu", "pax"])
def test_large_and_negative_numbers(format: str) -> None:
    given = member(tarfile.REGTYPE, name="x", uid=3_000_000_000, gid=1 << 31, mtime=-17)
    ((header, _),) = read_all(archive(FORMATS[format], (given, b"")))
    assert (header.uid, header.gid, header.mtime) == (3_000_000_000, 1 << 31, -17 * 10**9)


@pytest.mark.parametrize(
    ("digits", "value"),
    [
        (b"0000755\0", 0o755),
        (b"    755 ", 0o755),
        (b"\0" * 8, 0),
        (b"755\0junk", 0o755),
        (b"\x80" + bytes(10) + b"\x05", 5),
        (b"\x80" + bytes(3) + b"\xff" * 4, (1 << 32) - 1),
        (b"\xff" * 12, -1),
        (b"\xff" * 11 + b"\xef", -17),
    ],
)
def test_numbers(digits: bytes, value: int) -> None:
    assert number(digits) == value


def test_an_ustar_prefix_is_not_what_gnu_keeps_there() -> None:
    plain = bytearray(archive(tarfile.GNU_FORMAT, (member(tarfile.REGTYPE, name="x"), b"")))
    plain[345:357] = b"00000000001\0"  # GNU: the time of the last access
    plain[148:156] = b" " * 8
    plain[148:156] = b"%06o\0 " % sum(plain[:512])
    assert read_all(bytes(plain))[0][0].name == b"x"


def test_fractions_of_a_second_are_exact() -> None:
    given = member(tarfile.REGTYPE, name="x")
    given.pax_headers = {"mtime": "1700000000.123456789"}
    ((header, _),) = read_all(archive(tarfile.PAX_FORMAT, (given, b"")))
    assert header.mtime == 1_700_000_000_123_456_789


def test_attributes_may_be_binary_and_empty() -> None:
    record = b"SCHILY.xattr.user.a=\0\n\xff=\n"
    record = b"%d %s" % (len(record) + 3, record)
    extended = member(b"x", name="pax")
    data = archive(tarfile.USTAR_FORMAT, (extended, record), (member(b"0", name="f"), b"z"))
    header, content = read_all(data)[0]
    assert header.xattrs == {"user.a": b"\0\n\xff="}
    assert content == b"z"
    assert parse_records(b"9 a=\n\n\n\n\n10 bb=12\n\n") == [(b"a", b"\n\n\n\n"), (b"bb", b"12\n")]


def test_global_records_are_for_all() -> None:
    buffer = io.BytesIO()
    with tarfile.open(
        fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT, pax_headers={"mtime": "5"}
    ) as tar:
        tar.addfile(tarfile.TarInfo("a"))
        tar.addfile(tarfile.TarInfo("b"))
    assert [header.mtime for header, _ in read_all(buffer.getvalue())] == [5 * 10**9] * 2


def test_an_empty_record_revokes_the_global_one() -> None:
    """pax(1): an empty value deletes an earlier or global record."""
    everywhere = member(b"g", name="global"), b"11 uname=x\n8 uid=7\n"
    revoked = member(b"x", name="pax"), b"9 uname=\n7 uid=\n"
    own = member(b"0", name="f")
    own.uid, own.uname = 3, "own"
    data = archive(tarfile.USTAR_FORMAT, everywhere, (own, b""), revoked, (own, b""))
    (first, _), (second, _) = read_all(data)
    assert (first.uid, first.user) == (7, b"x")
    assert (second.uid, second.user) == (3, b"own")


@pytest.mark.parametrize("ending", [b"", bytes(512), bytes(1024), bytes(10240)])
def test_ends(ending: bytes) -> None:
    data = pack({"a": "x"})[:1024]
    assert [content for _, content in read_all(data + ending)] == [b"x"]
    assert read_all(ending) == []


WHOLE = pack({"a": "x" * 600, "long" * 100: "y"})


@pytest.mark.parametrize("length", [1, 511, 513, 600, 1023, 1100, 1535, 2048, 2100, 2600])
def test_what_ends_too_early_is_refused(length: int) -> None:
    with pytest.raises(ImageError, match="ends"):
        read_all(WHOLE[:length])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"x" * 512, "wrong checksum"),
        (b"\x1f\x8b" + b"x" * 600, "wrong checksum"),
        (pack({"a": ""})[:512] + b"junk" * 128, "wrong checksum"),
        (bytes(512) + pack({"a": ""}), "zero block"),
        (archive(tarfile.USTAR_FORMAT, (member(b"x", name="p"), b"9999 a=b\n")), "invalid record"),
        (archive(tarfile.USTAR_FORMAT, (member(b"x", name="p"), b"0 \n")), "invalid record"),
        (archive(tarfile.USTAR_FORMAT, (member(b"x", name="p"), b"7 a=b\nx")), "invalid record"),
        (archive(tarfile.USTAR_FORMAT, (member(b"x", name="p"), b"\n" * 9)), "invalid record"),
        (archive(tarfile.USTAR_FORMAT, (member(b"x", name="p"), b"")), "within a header"),
        (
            archive(tarfile.USTAR_FORMAT, *[(member(b"L", name="p"), b"name")] * 20),
            "more than 16 .*headers",
        ),
        (
            archive(tarfile.USTAR_FORMAT, (member(b"L", name="p"), bytes(2 << 20))),
            "header of 2097152 bytes",
        ),
    ],
)
def test_damage_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(ImageError, match=message):
        read_all(data)


def test_a_wrong_checksum_in_the_middle_does_not_end_the_archive() -> None:
    data = bytearray(pack({"a": "", "b": "", "c": ""}))
    data[512 + 10] ^= 1
    with pytest.raises(ImageError, match="checksum"):
        read_all(bytes(data))


@pytest.mark.parametrize(
    "options",
    [
        ["--format=gnu"],
        ["--format=posix", "--sparse-version=0.0"],
        ["--format=posix", "--sparse-version=0.1"],
        ["--format=posix", "--sparse-version=1.0"],
    ],
)
def test_sparse_files_of_gnu_tar(tmp_path: Path, options: list[str]) -> None:
    source = tmp_path / "source"
    source.mkdir()
    with (source / "holes").open("wb") as file:
        for number in range(30):  # more than fit into one header
            file.seek(number * 262144)
            file.write(b"%d" % number * 100)
        file.truncate(30 * 262144)
    (source / "hollow").write_bytes(b"")
    os.truncate(source / "hollow", 1 << 20)
    (source / "plain").write_text("behind them")
    names = ["holes", "hollow", "plain"]
    command = ["tar", "-C", str(source), "--sparse", *options, "-cf", "-", *names]
    done = subprocess.run(command, capture_output=True, check=True)
    assert len(done.stdout) < 1 << 20, "tar has left the holes out"
    if os.geteuid() != 0:
        assert [header.size for header, _ in read_all(done.stdout)] == [30 << 18, 1 << 20, 11]
        return
    apply(tmp_path / "root", done.stdout)
    for name in names:
        assert (tmp_path / "root" / name).read_bytes() == (source / name).read_bytes()
    assert (tmp_path / "root/hollow").stat().st_blocks == 0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"uid": (1 << 32) - 1}, '"x": invalid owner 4294967295:0'),
        ({"gid": -1}, '"x": invalid owner 0:-1'),
        ({"devmajor": 1 << 12}, '"x": invalid device number 4096:0'),
        ({"devminor": 1 << 20}, '"x": invalid device number 0:1048576'),
    ],
)
def test_numbers_that_the_kernel_does_not_take(fields: dict[str, int], message: str) -> None:
    device = member(tarfile.CHRTYPE, name="x", **fields)
    with pytest.raises(ImageError, match=message):
        read_all(archive(tarfile.GNU_FORMAT, (device, b"")))


def test_names_with_a_nul() -> None:
    for key in ("path", "linkpath", "GNU.sparse.name"):
        given = member(tarfile.REGTYPE, name="x")
        given.pax_headers = {key: "a\0b", "GNU.sparse.map": "0,2", "GNU.sparse.size": "2"}
        with pytest.raises(ImageError, match="NUL byte"):
            read_all(archive(tarfile.PAX_FORMAT, (given, b"ab")))


def sparse(pieces: str, size: int, content: bytes = b"ab") -> bytes:
    given = member(tarfile.REGTYPE, name="x")
    given.pax_headers = {"GNU.sparse.map": pieces, "GNU.sparse.size": str(size)}
    return archive(tarfile.PAX_FORMAT, (given, content))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (sparse("0,1,0,1", 9), "overlaps another"),
        (sparse("5,1,0,1", 9), "overlaps another"),
        (sparse("0,2", 1), "overlaps another"),
        (sparse("0,3", 9), "add up"),
        (sparse("0,1", 9), "add up"),
        (sparse("0", 9), "without a length"),
        (sparse("0,-1", 9), "invalid number"),
        (sparse("a,b", 9), "invalid number"),
        (sparse("0,9" + "9" * 30, 9), "invalid number"),
    ],
)
def test_wrong_lists_of_pieces(data: bytes, message: str) -> None:
    with pytest.raises(ImageError, match=message):
        read_all(data)


@pytest.mark.parametrize(
    ("key", "value"), [("size", "x"), ("uid", "-1"), ("gid", "9" * 19), ("mtime", "now")]
)
def test_a_wrong_value_names_file_and_key(key: str, value: str) -> None:
    header = Header(b"etc/file", b"0", 0o644, 0, 0, 0, 0, 0)
    with pytest.raises(ImageError, match=f'^"etc/file": .*"{key}" \'{value}\' '):
        apply_records(header, [(key.encode(), value.encode())])
