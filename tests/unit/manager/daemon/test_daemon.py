"""Entries of the daemon's log, which nothing in them can end."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from ociruntime.manager.daemon.daemon import Lines

HOSTILE = "x\n2026-01-01 INFO forged\r\x1b[2J\x85\u2028\u202e\udcff"
ESCAPED = "x\\n2026-01-01 INFO forged\\r\\x1b[2J\\u0085\\u2028\\u202e\\udcff"


@pytest.fixture
def log() -> Iterator[tuple[logging.Logger, io.StringIO]]:
    """A logger with the daemon's format, and what it has written."""
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
