"""Outside ``tests/errors`` no test repeats the wording of a message, so that it can be improved."""

from __future__ import annotations

import ast
import errno
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from ociruntime.base import errors
from tests.support import project

# So many words in a row are an object and a key word; more are prose.
LONGEST = 3
TOKEN = re.compile(r"[^\s\"(){}\[\],;:]+")
WORD = re.compile(r"[a-z][a-z'-]*")
C_LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
BETWEEN_LITERALS = re.compile(r'"\s*\n\s*"')
# The wordings of others: engines search for the first two, the C library has the rest.
OTHERS = (
    "executable file not found in $path",
    "flag needs an argument",
    *sorted((os.strerror(number).lower() for number in errno.errorcode), key=len, reverse=True),
)
FOREIGN = re.compile("|".join(map(re.escape, OTHERS)))
# Files whose texts are input that others write, not what a test expects of us.
EXEMPT = {
    "tests/unit/pods/net/test_firewall_rules.py": "rules for nft",
    "tests/unit/pods/bundle/test_runtime_calls.py": "messages of crun",
}
# The calls whose texts a user reads, and those in tests whose texts are about the test.
CLASSES = {name for name, value in vars(errors).items() if isinstance(value, type)}
SAYING = CLASSES | {"warn", "warning", "fail"}
REMARKS = {"deviates", "need_root", "skip", "skipif", "xfail", "fail"}


def text_of(node: ast.AST) -> str | None:
    """Return the text of a string literal, with NUL for each value in it; None for other nodes."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or " \0 " for part in node.values)
    return None


def called(node: ast.AST) -> str:
    """Return the name of the function, method or class that a node calls, or ""."""
    if not isinstance(node, ast.Call):
        return ""
    return str(getattr(node.func, "attr", getattr(node.func, "id", "")))


def said(tree: ast.AST) -> Iterator[str]:
    """Yield the messages in a module of the package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise | ast.Return) or called(node) in SAYING:
            yield from (text for part in ast.walk(node) if (text := text_of(part)))


def expected(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and text of what a test may compare: all literals but docstrings and remarks."""
    pending = [tree]
    while pending:
        node = pending.pop()
        text = text_of(node)
        if text is not None:
            yield getattr(node, "lineno", 0), text
        elif isinstance(node, ast.Assert):
            pending.append(node.test)
        elif not (isinstance(node, ast.Raise) or called(node) in REMARKS):
            pending += [each for each in ast.iter_child_nodes(node) if not is_docstring(each)]


def is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and text_of(node.value) is not None


def runs(text: str) -> Iterator[tuple[str, ...]]:
    """Yield each group of words in a row that is one longer than LONGEST."""
    if text.count(" ") < LONGEST:
        return
    row: list[str] = []
    for token in TOKEN.findall(FOREIGN.sub(" \0 ", text.lower())):
        word = token.strip("'.")
        row = [*row[-LONGEST:], word] if WORD.fullmatch(word) else []
        if len(row) > LONGEST:
            yield tuple(row)


Runs = frozenset[tuple[str, ...]]


@cache
def messages() -> Runs:
    """Return the runs of words in the messages of the package and of the C programs."""
    ours = [path for path in project.with_suffix(".py") if path.is_relative_to(project.PACKAGE)]
    found = [text for path in ours for text in said(ast.parse(path.read_text(encoding="utf-8")))]
    for path in project.with_suffix(".c", ".h"):
        if path.is_relative_to(project.ROOT / "csrc"):
            source = BETWEEN_LITERALS.sub("", path.read_text(encoding="utf-8"))
            found += C_LITERAL.findall(source)
    return frozenset(run for text in found for run in runs(text))


def frozen(source: str, known: Runs) -> Iterator[str]:
    """Yield line and words of each text of a test that repeats a message."""
    for line, text in expected(ast.parse(source)):
        for run in runs(text):
            if run in known:
                yield f"{line}: {' '.join(run)}"
                break


def guarded() -> Iterator[Path]:
    """Yield the modules of tests that must leave messages free."""
    for path in project.with_suffix(".py"):
        parts = path.relative_to(project.ROOT).parts
        if parts[0] == "tests" and parts[1] not in ("errors", "support"):
            yield path


def test_tests_leave_the_wording_of_messages_free() -> None:
    """The class, the object and a key word stay the same when a message is improved."""
    found = [
        f"{project.name_of(path)}:{line}"
        for path in guarded()
        if project.name_of(path) not in EXEMPT
        for line in frozen(path.read_text(encoding="utf-8"), messages())
    ]
    assert found == [], f"assert the class, the object and at most {LONGEST} words in a row"


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ('assert "is as round as the moon" in err', 1),
        ('x = [("a", f"image {name} is as round as the moon")]', 1),
        ('assert "is as round" in err', 0),
        ('assert "is as round: as the moon" in err, "is as round as"', 1),
        ('"""is as round as the moon"""', 0),
        ('pytest.skip("is as round as the moon")', 0),
    ],
)
def test_what_is_found(source: str, count: int) -> None:
    message = ast.parse('raise ImageError(f"image {name} is as round as the moon", hint)')
    known = frozenset(run for text in said(message) for run in runs(text))
    assert len(list(frozen(source, known))) == count


def test_words_of_others_are_free() -> None:
    assert not list(runs("/bin/x: no such file or directory"))
    assert not list(runs('exec: "x": executable file not found in $PATH'))
