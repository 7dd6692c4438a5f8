"""A file has one subject and a function one task; long ones have grown a second."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

import pytest

from tests.support import project

FILE_LINES = 600
PYTHON_FUNCTION_LINES = 60
C_FUNCTION_LINES = 80

Measure = Callable[[str], Iterator[tuple[str, int]]]

SOURCES = [
    path
    for path in project.files()
    if (path.suffix in {".py", ".c", ".h", ".sh"} or path.name == "dev")
    and not project.generator_of(path)
]


def python_functions(text: str) -> Iterator[tuple[str, int]]:
    """(name, lines) of every function, with its decorators and docstring."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            yield node.name, (node.end_lineno or first) - first + 1


def c_functions(text: str) -> Iterator[tuple[str, int]]:
    """(line above the body, lines of the body): both braces stand in the first column."""
    start, heading, previous = 0, "", ""
    for number, line in enumerate(text.splitlines(), 1):
        if line == "{":
            start, heading = number, previous
        elif line == "}" and start:
            yield heading, number - start + 1
            start = 0
        previous = line


def test_files() -> None:
    """A longer file has a second subject."""
    sizes = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert {project.name_of(path): n for path, n in sizes.items() if n > FILE_LINES} == {}


@pytest.mark.parametrize(
    ("suffix", "measure", "limit"),
    [(".py", python_functions, PYTHON_FUNCTION_LINES), (".c", c_functions, C_FUNCTION_LINES)],
)
def test_functions(suffix: str, measure: Measure, limit: int) -> None:
    long = [
        f"{project.name_of(path)}: {name} has {lines} lines"
        for path in SOURCES
        if path.suffix == suffix
        for name, lines in measure(path.read_text(encoding="utf-8"))
        if lines > limit
    ]
    assert long == []


def test_measuring() -> None:
    assert list(python_functions("@a\ndef f():\n    pass\n")) == [("f", 3)]
    assert list(c_functions("int f(void)\n{\n\treturn 0;\n}\n")) == [("int f(void)", 3)]
