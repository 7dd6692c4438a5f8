"""Regression tests for the sweep's findings: runs that left something, hung or were unclear."""

from __future__ import annotations

import errno
from dataclasses import dataclass

import pytest

from tests.faults.running import FAIL, INTERRUPT, KILL, ContainerRunner, describe
from tests.faults.scenarios import BY_NAME
from tests.faults.stepping import CALLER, COMMAND, Action, Boundary
from tests.support.peers import judge_by

pytestmark = judge_by("ociruntime")


@dataclass(frozen=True)
class Found:
    """The first ``call`` with ``path`` in its path, after the first one with ``behind`` there."""

    scenario: str
    call: str
    error: int = 0  # 0: the command was killed there
    path: str = ""
    behind: str = ""
    process: str = ""  # any

    def __str__(self) -> str:
        how = errno.errorcode.get(self.error, "killed")
        words = (self.scenario, self.call, how, self.path or self.behind)
        return "-".join(word.strip("/").replace("/", ".") for word in words if word)

    def boundary(self, calls: list[Boundary]) -> Boundary:
        first = next(at for at, one in enumerate(calls) if self.behind in one.path)
        later = calls[first + 1 :] if self.behind else calls
        fitting = [one for one in later if one.call == self.call and self.path in one.path]
        return next(one for one in fitting if self.process in ("", one.process))

    def action(self, calls: list[Boundary]) -> Action:
        one = self.boundary(calls)
        if self.error:
            return Action(FAIL, str(self.error), one.process, one.nth, one.number)
        return Action(KILL, COMMAND, one.process, one.index)


FOUND = [
    # a temporary file beside the pid file, which nobody removed
    Found("create", "linkat"),
    # "internal error"
    Found("create", "read", errno.EIO, behind="/proc/self/mountinfo"),
    Found("create", "read", errno.EIO, behind="/proc/self/cgroup"),
    Found("create", "newfstatat", errno.ENOMEM, "/proc/self/ns/user", behind="/proc/self/cgroup"),
    Found("create", "socket", errno.EMFILE),
    # a created container that stayed, because its file could not be read to start it
    Found("run", "newfstatat", errno.EIO, behind="/pid"),
    # a container that stayed at its end, of which the message said nothing
    Found("run", "openat", errno.ENOMEM, "/state.json", behind="/start"),
    Found("run", "connect", errno.EINTR),
    Found("exec", "signalfd4", errno.EMFILE),
    Found("exec", "poll", errno.ENOMEM, behind="/proc/self/ns/time"),
    Found("exec", "readlink", errno.ENOMEM, "/proc/self/ns/time"),
    # ... and the state directory stayed
    Found("create", "openat", errno.EMFILE, "/.creating-"),
    Found("create", "flock", errno.ENOMEM),
    Found("create", "fstat", errno.EIO, behind="/.creating-"),
    # ten seconds of waiting for a process that was to be killed later
    Found("create", "mkdir", errno.ENOMEM, "/memory/"),
    # an executor that waited for ever for a message that was not sent
    Found("create", "sendmsg", errno.ENOMEM),
    # "internal error", when a module could not be read
    Found("mounts-add", "openat", errno.ENOMEM, "/modules.bin"),
    # "internal error", when the container was to be published
    Found("create", "newfstatat", errno.EIO, "/.creating-", behind="/state.json"),
    # "internal error", for a module that could not be read
    Found("create-interpreter", "pread64", errno.EIO, behind="/.creating-"),
]


@pytest.mark.parametrize("found", FOUND, ids=str)
def test_found(found: Found, runner: ContainerRunner) -> None:
    scenario = BY_NAME[found.scenario]
    action = found.action(runner.calls(scenario))
    result = runner.run(scenario, action)
    assert result.boundary is not None, describe(action)
    assert result.problems == [], result.boundary


def test_executor_killed_before_it_reports_the_program(runner: ContainerRunner) -> None:
    """Its child does not run the program of an `exec` that fails."""
    scenario = BY_NAME["exec-detached"]
    calls = [one for one in runner.calls(scenario) if one.process == EXECUTOR]
    (report,) = [one for one in calls if one.call == "sendmsg"][-1:]
    result = runner.run(scenario, Action(KILL, CALLER, EXECUTOR, report.nth, report.number))
    assert result.boundary is not None
    assert result.status not in (0, None)
    assert result.problems == []


@pytest.mark.parametrize("last", range(1, 41))
def test_interrupted_while_it_ends(last: int, runner: ContainerRunner) -> None:
    """An `exec` in the background that fails for a signal ends its program, or it succeeds."""
    scenario = BY_NAME["exec-detached"]
    own = [one for one in runner.calls(scenario) if one.process == "0"]
    result = runner.run(scenario, Action(INTERRUPT, COMMAND, "0", own[-last].index))
    assert result.problems == []


# The executor's call that failed, and what the message says of it.
EXECUTOR = "0.1"
MESSAGES = [
    # it was blamed on the first operation
    (Found("create", "openat", errno.EMFILE, "/proc", process=EXECUTOR), '/proc\\": too many open'),
    # "stale file handle", as if another process had replaced the mount
    (Found("create", "openat2", errno.EMFILE, behind="/proc/kcore"), "too many open"),
    # "argument list too long", the answer to another call
    (Found("create", "openat2", errno.EPERM, "/dev/pts"), '/dev/pts\\": operation not permitted'),
    # "executable file not found in $PATH"
    (Found("create", "newfstatat", errno.ENOMEM, "/bin/sleep"), "cannot allocate memory"),
    # "bad message", as if the plan were damaged
    (Found("create", "fstat", errno.ENOMEM, process=EXECUTOR), "cannot allocate memory"),
]


@pytest.mark.parametrize(("found", "words"), MESSAGES, ids=str)
def test_message(found: Found, words: str, runner: ContainerRunner) -> None:
    """It says what has failed, and why."""
    scenario = BY_NAME[found.scenario]
    result = runner.run(scenario, found.action(runner.calls(scenario)))
    assert result.problems == []
    assert words in result.message
    assert "keyring" not in result.message
