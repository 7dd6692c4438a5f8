"""Errors for the executor's FAILURE messages that containers seldom cause."""

from __future__ import annotations

import errno

import pytest

from ociruntime.base.errors import HookError, StepError
from ociruntime.runtime.executor.failure_messages import HINTS, failure
from ociruntime.runtime.executor.protocol import LONG, Message
from ociruntime.runtime.plan import operation_constructors as o
from ociruntime.runtime.plan import operation_table as ops


def message(call: str, argument: str = "", error: int = errno.EIO) -> Message:
    return Message(
        LONG.pack(ops.MESSAGE_FAILURE, 0, 0, error, call.encode(), argument.encode(), b"")
    )


@pytest.mark.parametrize(
    ("call", "argument", "words"),
    [
        ("read", "plan", "the plan"),
        ("open", "/dev/null", 'open "/dev/null"'),
        ("prctl", "", "executor: prctl: "),
    ],
)
def test_before_the_first_operation(call: str, argument: str, words: str) -> None:
    error = failure(None, message(call, argument))
    assert isinstance(error, StepError)
    assert error.errno == errno.EIO
    assert words in error.message
    assert error.message.endswith(": input/output error")


def test_call_around_a_hook() -> None:
    """The hook itself has not failed: it is no HookError, for which `start` deletes."""
    operation = o.hook(
        source="/h",
        args=["h"],
        env=[],
        with_home=0,
        timeout=0,
        state_before="",
        state_after="",
        where="hooks.startContainer[0]",
    )
    error = failure(operation, message("pipe2", "", errno.EMFILE))
    assert isinstance(error, StepError)
    assert not isinstance(error, HookError)
    assert error.message == "hooks.startContainer[0]: pipe2: too many open files"


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EBUSY, errno.EIO])
def test_seccomp(number: int) -> None:
    operation = o.seccomp(flags=0, last=1, filter=b"", where="linux.seccomp")
    error = failure(operation, message("seccomp", "", number))
    assert error.message.startswith("linux.seccomp: ")
    assert error.hint == HINTS.get(("seccomp", number), "")
