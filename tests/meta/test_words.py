"""Project files mention only the project, and are plain text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.support import project

FORBIDDEN = {
    r"(?<![\w.$}])/(work|workspace|builds)/": "a checkout's place",
    r"/home/(?!user\b)\w+/": "a user's home directory",
    r"\b(FIXME|XXX):": "unfinished work is not a comment",
    r"<{7} |>{7} ": "a merge that was not finished",
    r"(?i)\b(issue|ticket|story) #?\d+": "the reason belongs here, not a number",
}
BINARY = {".png", ".gz", ".tar", ".zip"}
TEXTS = [path for path in project.files() if path.suffix not in BINARY]


def test_words() -> None:
    own_place = {re.escape(f"{project.ROOT}/"): "this checkout's place"}
    found = [
        f"{project.name_of(path)}: {match[0]!r} is {why}"
        for path in TEXTS
        for pattern, why in (FORBIDDEN | own_place).items()
        for match in re.finditer(pattern, path.read_text(encoding="utf-8"))
    ]
    assert found == []


def faults(path: Path) -> Iterator[str]:
    text = path.read_bytes()
    if b"\r" in text:
        yield "carriage returns"
    if re.search(rb"[ \t]\n", text):
        yield "blanks at the end of a line"
    if text and not text.endswith(b"\n"):
        yield "the last line does not end"
    if path.suffix == ".py" and b"\t" in text:
        yield "tabs"


def test_plain_text() -> None:
    assert [f"{project.name_of(path)}: {fault}" for path in TEXTS for fault in faults(path)] == []
