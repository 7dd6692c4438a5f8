"""Docstrings begin with a verb in the imperative, or with the noun that they describe."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.support import project

# What a docstring that hangs on the name above it begins with.
FRAGMENTS = {
    *("As", "But", "Nobody", "No", "Not", "Of", "Or", "Taken", "That", "Those", "Told"),
    *("Who", "Whoever", "Whom", "Whose", "Whether", "Somebody", "Everybody"),
}
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def fragments(text: str) -> Iterator[str]:
    """Yield the first line of each docstring that begins with a fragment."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, DOCUMENTED):
            continue
        docstring = ast.get_docstring(node)
        if docstring and docstring.split()[0].strip(".,:;") in FRAGMENTS:
            yield docstring.splitlines()[0]


def test_docstrings_are_sentences_of_their_own() -> None:
    found = [
        f"{project.name_of(path)}: {line}"
        for path in project.with_suffix(".py")
        for line in fragments(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize("word", ["Of", "Whether", "As"])
def test_a_fragment_is_seen(word: str) -> None:
    text = f'"""A module."""\n\ndef f():\n    """{word} the pod."""\n'
    assert list(fragments(text)) == [f"{word} the pod."]
