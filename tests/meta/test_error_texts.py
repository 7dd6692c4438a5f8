"""Every error that the command lines, the runtime, the specification's reader and the layers of
pods raise has a test.

A text counts as tested when some test has three words of it in a row.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support import project

PACKAGES = (
    *("cli", "runtime", "spec", "net", "monitor", "image", "pod", "pod/kvm", "ocipod"),
    *("manager", "ocictl", "ocid"),
)

# Without a test: what would have to happen.
UNTESTED: dict[str, str] = {
    "linux.netDevices: open the container's network namespace": "its process ends meanwhile",
    "linux.netDevices: open": "a namespace is gone, or its file, between two looks at it",
    "was written by another version of ociruntime": "there is one version",
    "open the namespace": "one that is joined goes between the look at it and CRIU's start",
    "open the restored process": "it ends at once, and somebody else has reaped it",
    "change mounts: the executor was killed": "somebody else kills it",
    "run ps": "fork(2) fails, or there is no ps on the host",
    "open the timeline": "open(2) fails on the file for the timeline",
    "write the timeline": "write(2) fails on the file for the timeline",
    "make an app's pipes": "pipe(2) fails: no descriptor is left",
    "write the pod's": "write(2) fails in a directory of the pod's own",
    "start a child process": "fork(2) fails",
    "read descriptor": "read(2) fails on the descriptor of --failure-fd",
    "open the events of": "open(2) fails on a file of the manager's own",
    "look through": "readdir(2) fails in a directory of the manager's own",
    "remove files of": "unlink(2) fails in a directory of the manager's own",
    "stop container": "a monitor answers that it cannot end an app",
    "pass on a container's streams": "read(2) or write(2) fails on our own streams",
    "kill container": "the runtime cannot send a signal to a container that runs",
}


def raised(source: Path) -> Iterator[list[str]]:
    """The literal parts of each text that is raised."""
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if not (isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args):
            continue
        if ast.unparse(node.exc.func) == "ValueError":
            continue  # caught where it is raised, and told in other words
        # The place in a request that is wrong stands before the text.
        text = node.exc.args[1 if ast.unparse(node.exc.func) == "BadRequest" else 0]
        pieces = text.values if isinstance(text, ast.JoinedStr) else [text]
        literal = [
            piece.value.strip(' :"(),')
            for piece in pieces
            if isinstance(piece, ast.Constant) and isinstance(piece.value, str)
        ]
        if any(len(piece) > 3 for piece in literal):
            yield [piece for piece in literal if len(piece) > 3]


def is_tested(literal: list[str], tests: str) -> bool:
    """By three words in a row, or by all there are."""
    for piece in literal:
        words = piece.split()
        for start in range(max(1, len(words) - 2)):
            if " ".join(words[start : start + 3]) in tests:
                return True
    return False


def test_every_text_is_produced_by_some_test() -> None:
    tests = "\n".join(
        path.read_text(encoding="utf-8")
        for path in project.with_suffix(".py")
        if project.name_of(path).startswith("tests/") and path != Path(__file__)
    )
    untested = {
        " ... ".join(literal)
        for package in PACKAGES
        for source in sorted((project.PACKAGE / package).rglob("*.py"))
        for literal in raised(source)
        if not is_tested(literal, tests)
    }
    assert untested == set(UNTESTED)
