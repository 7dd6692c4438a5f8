"""The lines that engines parse."""

from __future__ import annotations

import errno
import json
import os
import pty
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ociruntime.base.log import Log, plain, plain_lines, quote

TEXT = re.compile(r'time="(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)" level=(\w+) msg=(.*)\n')


def test_text_without_a_terminal_has_the_shape_of_logrus(capfd: pytest.CaptureFixture[str]) -> None:
    Log().error("container does not exist")
    match = TEXT.fullmatch(capfd.readouterr().err)
    assert match
    assert match[2] == "error"
    assert match[3] == '"container does not exist"'


def test_json_is_one_line_with_three_keys_and_a_zone(capfd: pytest.CaptureFixture[str]) -> None:
    Log(format="json").error('a "b"\nc\té')
    line = capfd.readouterr().err
    assert line.count("\n") == 1
    entry = json.loads(line)
    assert list(entry) == ["level", "msg", "time"]
    assert entry["level"] == "error"
    assert entry["msg"] == 'a "b"\nc\té'
    written = datetime.fromisoformat(entry["time"])
    assert written.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - written) < timedelta(hours=1)


def test_file_is_appended_to_and_standard_error_gets_the_bare_message(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log"
    path.write_text("before\n")
    Log(str(path), "json").error("a b")
    lines = path.read_text().splitlines()
    assert lines[0] == "before"
    assert json.loads(lines[1])["msg"] == "a b"
    assert capfd.readouterr().err == "a b\n"


def test_file_is_made_only_when_there_is_something_to_say(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = Log(str(path))
    log.flush()
    assert not path.exists()
    log.error("x")
    assert path.stat().st_mode & 0o777 == 0o644 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_terminal_gets_the_sentence_without_control_characters() -> None:
    master, slave = pty.openpty()
    saved = os.dup(2)
    try:
        os.dup2(slave, 2)
        Log().error("bad \x1b[31m name \udcff é")
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(slave)
    try:
        assert os.read(master, 200).decode() == "bad \\x1b[31m name \\udcff é\r\n"
    finally:
        os.close(master)


def test_warnings_wait_for_success(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log"
    log = Log(str(path), "json", warnings=True)
    log.warning("one")
    log.warning("two")
    assert not path.exists()
    log.flush()
    log.flush()
    assert [json.loads(line)["msg"] for line in path.read_text().splitlines()] == ["one", "two"]
    assert capfd.readouterr().err == ""


def test_error_stands_alone(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = Log(str(path), "json")
    log.warning("one")
    log.error("two")
    log.flush()
    assert json.loads(path.read_text())["msg"] == "two"


def test_warnings_without_a_file_are_shown_only_on_request(
    capfd: pytest.CaptureFixture[str],
) -> None:
    for log in (Log(), Log(warnings=True), Log(debug=True)):
        log.warning("odd")
        log.debug("detail")
        log.flush()
    levels = [match[2] for match in TEXT.finditer(capfd.readouterr().err)]
    assert levels == ["warning", "warning", "debug"]


def test_unusable_file_does_not_swallow_the_message(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    Log(f"{tmp_path}/none/log").error("the reason")
    err = capfd.readouterr().err
    assert "the reason\n" in err
    assert "open log file" in err
    Log("nul\0byte").error("the reason")
    assert "the reason\n" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("EOF", "EOF"),
        ("a/b-c_d.e@f^g+h", "a/b-c_d.e@f^g+h"),
        ("", '""'),
        ("a b", '"a b"'),
        ("a=b", '"a=b"'),
        ('say "x"', '"say \\"x\\""'),
        ("back\\slash", '"back\\\\slash"'),
        ("a\nb\tc\x1bd", '"a\\nb\\tc\\x1bd"'),
        ("é", '"é"'),
        ("\udcff", '"\\udcff"'),
        ("\U000e0001", '"\\U000e0001"'),
    ],
)
def test_quoting(text: str, written: str) -> None:
    assert quote(text) == written


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a b é \N{GREEK SMALL LETTER PI} \\n", "a b é \N{GREEK SMALL LETTER PI} \\n"),
        ("a\nb\r\tc", "a\\nb\\r\\tc"),
        ("\0\x07\x1b[2J\x7f", "\\x00\\x07\\x1b[2J\\x7f"),
        ("\x85\x9b1m", "\\u0085\\u009b1m"),
        ("\u2028\u2029", "\\u2028\\u2029"),
        ("\u202a\u202e\u2066\u2069\u200f", "\\u202a\\u202e\\u2066\\u2069\\u200f"),
        (b"\xff\xc3".decode(errors="surrogateescape"), "\\udcff\\udcc3"),
        ("\U000e0001", "\\U000e0001"),
    ],
)
def test_plain_text_stays_on_its_line(text: str, escaped: str) -> None:
    assert plain(text) == escaped
    assert plain(escaped) == escaped


def test_nothing_breaks_out_of_a_line() -> None:
    everything = "".join(map(chr, range(0x110000)))
    for text in (plain(everything), quote(everything)):
        assert text.isprintable()
        assert len(text.splitlines()) == 1
        text.encode()


def test_line_feeds_alone_pass_where_there_are_several_lines() -> None:
    assert plain_lines("a\x1b\n b\r\n") == "a\\x1b\n b\\r\n"


def test_error_of_several_lines_is_one_on_standard_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    Log(str(tmp_path / "log")).error("a\nb")
    assert capfd.readouterr().err == "a\\nb\n"


def test_errors_that_cannot_be_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A full disk is reported to standard error; a closed standard error is ignored."""
    real = os.write
    log = Log(str(tmp_path / "log"), "json")

    def full(fd: int, data: bytes) -> int:
        if fd != 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(fd, data)

    monkeypatch.setattr("posix.write", full)
    log.error("lost")
    assert f'"{tmp_path}/log": ' in capfd.readouterr().err

    def closed(fd: int, data: bytes) -> int:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    monkeypatch.setattr("posix.write", closed)
    log.error("lost")
    assert capfd.readouterr().err == ""
