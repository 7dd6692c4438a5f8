"""``--debug`` shows the failed operation, and how to reproduce it."""

from __future__ import annotations

import shlex

import pytest

from ociruntime.runtime.executor.protocol import LONG, Message
from ociruntime.runtime.lifecycle.context import CreateOptions
from ociruntime.runtime.lifecycle.failed_operation import debug_lines, quoted
from ociruntime.runtime.plan import operation_constructors as o
from ociruntime.runtime.plan.operation_table import MESSAGE_FAILURE

OPERATIONS = [o.hostname(name=f"n{number}", where=f"x[{number}]") for number in range(6)]


def message(step: int) -> Message:
    return Message(LONG.pack(MESSAGE_FAILURE, step, 0, 22, b"sethostname", b"n4", b""))


def test_debug_lines() -> None:
    options = CreateOptions("one", "/a bundle", config="/c.json")
    lines = debug_lines(OPERATIONS, message(4), "/run/x", options)
    assert lines[:4] == [
        "done: 2 hostname n1 # x[1]",
        "done: 3 hostname n2 # x[2]",
        "done: 4 hostname n3 # x[3]",
        "failed: 5 hostname n4 # x[4]",
    ]
    assert lines[4] == "operation 5 of 6, system call sethostname on n4"
    assert lines[5].endswith(": ociruntime plan --bundle '/a bundle' --config /c.json")
    assert lines[6].endswith(
        "strace -f -o trace ociruntime --root /run/x --debug create"
        " --bundle '/a bundle' --config /c.json one"
    )


def test_first_step() -> None:
    lines = debug_lines(OPERATIONS, message(0), "/r", CreateOptions("one", "/b"))
    assert lines[0].startswith("failed: 1 hostname n0")


@pytest.mark.parametrize("word", ["a", "", "a b", "it's", "$(x)", "a\nb"])
def test_quoted(word: str) -> None:
    assert shlex.split(quoted(word)) == [word]
