"""Lines of the daemon's log, which untrusted text cannot end; its child processes."""

from __future__ import annotations

import asyncio
import errno
import gc
import io
import logging
import os
import sys
from collections.abc import Iterator

import pytest

from ociruntime.manager.daemon import daemon
from ociruntime.manager.daemon.daemon import Lines

HOSTILE = "x\n2026-01-01 INFO forged\r\x1b[2J\x85\u2028\u202e\udcff"
ESCAPED = "x\\n2026-01-01 INFO forged\\r\\x1b[2J\\u0085\\u2028\\u202e\\udcff"


@pytest.fixture
def log() -> Iterator[tuple[logging.Logger, io.StringIO]]:
    """A logger with the daemon's format, and its output."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(Lines("%(levelname)s %(message)s"))
    one = logging.Logger("test")
    one.addHandler(handler)
    yield one, out
    handler.close()


def test_an_entry_is_one_line(log: tuple[logging.Logger, io.StringIO]) -> None:
    log[0].warning("GET %s", HOSTILE)
    assert log[1].getvalue() == f"WARNING GET {ESCAPED}\n"


def test_lines_of_a_traceback_are_indented(log: tuple[logging.Logger, io.StringIO]) -> None:
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        log[0].exception("%s", HOSTILE, stack_info=True)
    first, *rest = log[1].getvalue().removesuffix("\n").split("\n")
    assert first == f"ERROR {ESCAPED}"
    assert len(rest) > 4
    for line in rest:
        assert line.startswith("    ")
        assert line.isprintable()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # asyncio's own
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="Python watches children by itself")
def test_child_that_cannot_be_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is killed: it used to continue while the daemon removed its files."""
    started: list[int] = []

    def refuse(pid: int, flags: int = 0) -> int:
        started.append(pid)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "pidfd_open", refuse)
    before = asyncio.get_child_watcher()
    asyncio.set_child_watcher(daemon._Children())
    try:
        with pytest.raises(OSError, match="Too many open files"):
            asyncio.run(asyncio.create_subprocess_exec("/bin/sleep", "1000"))
    finally:
        asyncio.set_child_watcher(before)
    gc.collect()  # asyncio complains of the transport here, and not in a later test
    assert len(started) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)


def test_callback_that_the_kernel_refuses(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(daemon._log_unexpected)
        loop.call_soon(os.stat, "/missing/file")
        await asyncio.sleep(0)

    asyncio.run(fail())
    assert '"/missing/file": no such file or directory' in caplog.text
    assert "Traceback" not in caplog.text
