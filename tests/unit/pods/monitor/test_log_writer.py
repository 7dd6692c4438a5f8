"""Log files: their lines, rotation and reading."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ociruntime.pods.monitor.log_writer import LONGEST, AppLog, format_lines
from ociruntime.pods.store import log_reader
from ociruntime.pods.store.log_reader import FILES, Assembler, Line, LogReader, form, in_order

TIME = "2026-01-02T03:04:05.000000006Z"


def read_all(reader: LogReader) -> list[Line]:
    return [line for lines in reader.read() for line in lines]


def test_lines() -> None:
    found = format_lines(TIME, "stdout", b"one\n\ntwo")
    assert found.decode() == f"{TIME} stdout F one\n{TIME} stdout F \n{TIME} stdout P two\n"
    assert format_lines(TIME, "stderr", b"") == b""


def test_long_lines_are_pieces() -> None:
    entries = format_lines(TIME, "stdout", b"x" * (2 * LONGEST + 1) + b"\n").splitlines()
    assert [entry.split(b" ")[2] for entry in entries] == [b"P", b"P", b"F"]
    (line,) = Assembler("a").add(entries)
    assert len(line.text) == 2 * LONGEST + 1


def test_pieces_of_two_streams() -> None:
    assembler = Assembler("a")
    entries = [
        *(f"1Z stdout P {i}".encode() for i in range(3)),
        *(b"2Z stderr F error", b"3Z stdout F end", b"4Z stdout P rest", b"nonsense", b""),
    ]
    lines = list(assembler.add(entries))
    assert [(line.time, line.text) for line in lines] == [("2Z", b"error"), ("1Z", b"012end")]
    assert [line.text for line in in_order(lines)] == [b"012end", b"error"]
    assert [line.ended for line in assembler.rest()] == [False]
    assert form(lines[0], with_app=True, with_time=True) == b"2Z a: error\n"


def test_damaged_entries() -> None:
    """A power failure may leave any bytes."""
    entries = [b"1Z stdout F a", b"\xff\xff stdout F b", b"2Z \xff F c", bytes(40)]
    assert [line.text for line in Assembler("a").add(entries)] == [b"a", b"b", b"c"]


def test_the_reader_reads_the_files_that_the_writer_keeps(tmp_path: Path) -> None:
    for number in range(1, FILES + 1):
        entry = b"1Z stdout F %d\n" % number
        (tmp_path / f"a.log.{number}").write_bytes(entry)
    reader = LogReader(str(tmp_path), "a")
    read = [line.text for line in read_all(reader)]
    reader.close()
    assert read == [b"%d" % number for number in range(FILES - 1, 0, -1)]


def test_half_an_entry_at_the_end_of_a_file(tmp_path: Path) -> None:
    """Its writer was killed; the entry is not joined with the first of the next file."""
    (tmp_path / "a.log.2").write_bytes(b"1Z stdout F one\n2Z stdout F ha")
    (tmp_path / "a.log.1").write_bytes(b"3Z stdout F three\n4Z stdout F ha")
    (tmp_path / "a.log").write_bytes(b"5Z stdout F five\n")
    reader = LogReader(str(tmp_path), "a")
    read = [line.text for line in read_all(reader)]
    reader.close()
    assert read == [b"one", b"three", b"five"]


def test_setting_aside(tmp_path: Path) -> None:
    log = AppLog(str(tmp_path / "a.log"), limit=1000)
    reader = LogReader(str(tmp_path), "a")
    texts = [f"line {i}" for i in range(200)]
    found = []
    for text in texts:
        log.write("stdout", text.encode() + b"\n")
        found += read_all(reader)
    log.close()
    assert [line.text.decode() for line in found] == texts
    assert sorted(os.listdir(tmp_path)) == ["a.log", "a.log.1", "a.log.2"]
    assert all((tmp_path / name).stat().st_size <= 1000 for name in os.listdir(tmp_path))
    reader.close()
    later = LogReader(str(tmp_path), "a")
    kept = [line.text.decode() for line in read_all(later)]
    later.close()
    assert kept == texts[-len(kept) :]
    assert len(kept) > 20


@pytest.mark.parametrize("rotated", [False, True])
def test_an_app_that_writes_faster_than_its_log_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rotated: bool
) -> None:
    """Reading ends at the log's end when it began, in batches."""
    log = AppLog(str(tmp_path / "a.log"), limit=4 * log_reader.CHUNK if rotated else 1 << 40)
    text = b"x" * 999 + b"\n"
    log.write("stdout", text * 3000)
    read, reads = os.read, []

    def read_slowly(fd: int, size: int) -> bytes:
        reads.append(size)
        assert len(reads) < 50, "the reader follows the log"
        log.write("stdout", text * 2000)
        return read(fd, size)

    reader = LogReader(str(tmp_path), "a")
    with monkeypatch.context() as patch:
        patch.setattr(os, "read", read_slowly)
        batches = list(reader.read())
    assert sum(map(len, batches)) >= 3000
    assert max(map(len, batches)) <= log_reader.CHUNK // 1000
    if not rotated:
        rest = read_all(reader)
        assert sum(map(len, batches)) + len(rest) == 3000 + 2000 * len(reads)
    reader.close()
    log.close()


def test_a_line_that_never_ends() -> None:
    """It is passed on in parts, and joining them takes linear time."""
    assembler = Assembler("a")
    lines = list(assembler.add(f"{i}Z stdout P {'x' * 1024}".encode() for i in range(65536)))
    assert len(lines) == 64
    assert {len(line.text) for line in lines} == {log_reader.LONGEST_LINE}
    assert not any(line.ended for line in lines)
    assert assembler.rest() == []


def test_what_cannot_be_written_is_counted(tmp_path: Path) -> None:
    log = AppLog("/dev/full")
    log.write("stdout", b"12345")
    assert log.lost == 5
    log.close()


def test_a_disk_with_room_for_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next entry begins on a line of its own."""
    log = AppLog(str(tmp_path / "a.log"))
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: write(fd, data[:-4]))
        log.write("stdout", b"12345\n")
    assert log.lost == 4
    log.write("stdout", b"next\n")
    log.write("stdout", b"last\n")
    log.close()
    reader = LogReader(str(tmp_path), "a")
    assert [line.text for line in read_all(reader)] == [b"12", b"next", b"last"]
    reader.close()


def test_no_new_file_can_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old file, already renamed, is used until a new one can be opened."""
    path = tmp_path / "a.log"
    log = AppLog(str(path), limit=100)
    for number in range(3):
        log.write("stdout", b"%d" % number * 60 + b"\n")

    def no_space(*args: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(args[0]))

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", no_space)
        log.write("stdout", b"without a file\n")
        older = (tmp_path / "a.log.2").read_bytes()
        for _ in range(2):
            log.write("stdout", b"without a file\n")
        os.fstat(log.descriptor)
        assert (tmp_path / "a.log.2").read_bytes() == older
    assert log.lost == 0
    log.write("stdout", b"with one\n")
    log.close()
    assert path.read_text().endswith(" stdout F with one\n")
    assert len(path.read_text().splitlines()) == 1
    kept = (tmp_path / "a.log.1").read_text()
    assert kept.count("without a file") == 3
