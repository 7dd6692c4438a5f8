"""Run a command under ``stepper.c``: count its calls, kill it or fail a call at one of them."""

from __future__ import annotations

import os
import platform
import re
import select
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

from tests.support import processes, static_program
from tests.support.runtime import content

SOURCE = Path(__file__).with_name("stepper.c")
NUMBERS = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
COMMAND, CALLER, ALL = "command", "caller", "all"
LIST = "list"
FIRST = "0"  # the stepper's name for the command's first process
IDLE_SECONDS = 5  # in a row: a hang
IDLE_SHARE = 300_000_000  # nanoseconds of a second in which a process only polls
REAP_SECONDS = 0.1
LONGEST_SECONDS = 90.0


def missing() -> str:
    """Return why commands cannot be stepped on this host, or ""."""
    if platform.machine() != "x86_64":
        return "stepper.c knows the registers of x86_64 only"
    return "" if NUMBERS.exists() else f"{NUMBERS} is missing"


@cache
def names() -> dict[int, str]:
    """Return the names of the system calls."""
    found = re.findall(r"#define __NR_(\w+) (\d+)", NUMBERS.read_text())
    return {int(number): name for name, number in found}


@dataclass(frozen=True)
class Boundary:
    """The moment before a process makes its ``index``-th system call."""

    process: str  # "0" is the command, "0.1" its first child
    index: int
    call: str
    path: str = ""
    number: int = 0
    nth: int = 0  # of the same call by this process; other calls may be more or fewer in a run

    def __str__(self) -> str:
        return f"{self.process}#{self.index} {self.call} {self.path}".rstrip()


@dataclass(frozen=True)
class Action:
    """An action to take at a boundary."""

    kind: str  # "list", "kill", "interrupt" or "fail"
    detail: str = ""  # who is killed or interrupted, or the error number
    process: str = ""
    index: int = 0
    number: int | None = None  # ``index`` counts only this call

    def words(self) -> list[str]:
        if self.kind == "list":
            return [self.kind]
        number = [] if self.number is None else [str(self.number)]
        return [self.kind, self.detail, self.process, *number, str(self.index)]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a stepped command."""

    calls: list[Boundary]  # all calls of "list", else the one at which the action took place
    status: int | None  # None: it hung and was killed
    out: str
    err: str

    @property
    def hung(self) -> bool:
        return self.status is None


def build(target: Path) -> Path:
    """Compile the stepper."""
    flags = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror")
    return static_program.build(target, SOURCE, flags=flags)


@dataclass(frozen=True)
class Stepped:
    """A command that is being stepped."""

    process: subprocess.Popen[bytes]  # the stepper
    log: Path
    out: IO[bytes]

    @property
    def pids(self) -> set[int]:
        """The pids of the command, empty once it has exited."""
        every = processes.descendants()
        return {pid for pid in every if processes.parent(pid) == self.process.pid}

    @property
    def lines(self) -> int:
        """The number of lines that the stepper has written so far."""
        return self.log.read_bytes().count(b"\n")

    @property
    def has_ended(self) -> bool:
        """True once the command has exited; processes that it has started may still run."""
        text = self.log.read_text()
        return self.process.poll() is not None or text.startswith("end") or "\nend" in text


def step(
    stepper: Path,
    action: Action,
    command: Sequence[str],
    meanwhile: Callable[[Stepped], None] | None = None,
    *,
    follow: bool = False,
) -> Outcome:
    """Run the command to its end, with the action.

    ``meanwhile`` is called while it runs.  With ``follow``, waits for the last process that the
    command has started, and returns only the calls after the command's own exit.
    """
    with (
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
        tempfile.NamedTemporaryFile("r") as log,
    ):
        words = (["follow"] if follow else []) + action.words()
        process = subprocess.Popen(
            [str(stepper), log.name, *words, "--", *command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
        )
        if meanwhile is not None:
            processes.awaited.add(process.pid)
            try:
                meanwhile(Stepped(process, Path(log.name), out))
            except BaseException:
                process.kill()  # the kernel kills what it traces
                process.wait()
                raise
            finally:
                processes.awaited.discard(process.pid)
        finished = watch(process)
        lines = log.read().splitlines()
        ends = [at for at, line in enumerate(lines) if line.startswith("end")]
        if finished and not ends:
            raise RuntimeError(f"the stepper failed: {content(err)}")
        calls = boundaries(lines)
        if follow and action.kind == LIST:
            calls = calls[ends[0] :]
        status = os.waitstatus_to_exitcode(int(lines[ends[0]].split("\t")[1])) if ends else None
        return Outcome(calls, status if finished else None, content(out), content(err))


def boundaries(lines: Iterable[str]) -> list[Boundary]:
    """Return the calls in the stepper's log; skip the lines that report an exit."""
    found = []
    seen: Counter[tuple[str, int]] = Counter()
    for line in lines:
        if line.startswith("end"):
            continue
        _, process, index, word, path = line.split("\t", 4)
        number = int(word)
        seen[process, number] += 1
        call = names().get(number, word)
        found.append(Boundary(process, int(index), call, path, number, seen[process, number]))
    return found


def watch(process: subprocess.Popen[bytes], idle_seconds: int = IDLE_SECONDS) -> bool:
    """Wait for the process; if it hangs, kill it and return False.

    A process that waits for a CPU does not hang: it hangs if neither it nor a descendant has been
    running or runnable for some time, except for brief polling.
    """
    started = time.monotonic()
    idle, seen = 0, -1
    while not _ends_within(process, 1.0):
        busy = _busy(process.pid)
        idle = idle + 1 if 0 <= busy - seen < IDLE_SHARE else 0
        seen = busy
        if idle >= idle_seconds or time.monotonic() - started >= LONGEST_SECONDS:
            processes.end(_below(process.pid) - {process.pid})
            process.kill()
            process.wait()
            return False
    return True


def _ends_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait for the process, and reap orphans like a host's init.

    An unreaped zombie of a container would keep the container from exiting.
    """
    if process.returncode is not None:
        return True  # its pid may belong to another process by now
    deadline = time.monotonic() + seconds
    end = os.pidfd_open(process.pid)
    processes.awaited.add(process.pid)
    try:
        while time.monotonic() < deadline:
            if select.select([end], [], [], REAP_SECONDS)[0]:
                process.wait()
                return True
            processes.reap_orphans()
    finally:
        processes.awaited.discard(process.pid)
        os.close(end)
    return False


def _busy(pid: int) -> int:
    """Return for how many ns the process and its descendants have run or waited for a CPU."""
    total = 0
    for each in _below(pid):
        try:
            ran, waited, _ = Path(f"/proc/{each}/schedstat").read_text().split()
        except (OSError, ValueError):
            continue
        total += int(ran) + int(waited)
    return total


def _below(pid: int) -> set[int]:
    known = {pid}
    every = processes.descendants()
    while more := {each for each in every - known if processes.parent(each) in known}:
        known |= more
    return known


def finish(
    command: Sequence[str],
    enter: Callable[[], None] | None = None,
    idle_seconds: int = IDLE_SECONDS,
) -> Outcome:
    """Run a command without the stepper; its process calls ``enter`` first.

    It hangs if it and its descendants do nothing for ``idle_seconds``.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            preexec_fn=enter,  # noqa: PLW1509 - the tests have no threads
        )
        status = process.returncode if watch(process, idle_seconds) else None
        return Outcome([], status, content(out), content(err))


def died_of_kill(outcome: Outcome) -> bool:
    return outcome.status == -signal.SIGKILL
