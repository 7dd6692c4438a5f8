"""Project files speak of the project alone and are plain text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import project

FORBIDDEN = {
    r"(?<![\w.$}])/(work|workspace|builds)/": "a checkout's place",
    r"/home/(?!user\b)\w+/": "somebody's home directory",
    r"\b(FIXME|XXX):": "unfinished work is not a comment",
    r"<{7} |>{7} ": "a merge that was not finished",
    r"(?i)\b(issue|ticket|story) #?\d+": "the reason belongs here, not a number",
}
BINARY = {".png", ".gz", ".tar"}
TEXTS = [path for path in project.files() if path.suffix not in BINARY]


@pytest.mark.parametrize("path", TEXTS, ids=project.name_of)
def test_words(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    found = [
        f"{match[0]!r} is {why}"
        for pattern, why in FORBIDDEN.items()
        for match in re.finditer(pattern, text)
    ]
    assert found == []
    assert str(project.ROOT) + "/" not in text


@pytest.mark.parametrize("path", TEXTS, ids=project.name_of)
def test_plain_text(path: Path) -> None:
    text = path.read_bytes()
    assert b"\r" not in text
    assert not re.search(rb"[ \t]\n", text), "blanks at the end of a line"
    assert not text or text.endswith(b"\n")
    assert path.suffix != ".py" or b"\t" not in text
