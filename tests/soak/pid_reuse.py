"""Forced reuse of pids: no command may touch the process that has got an exited init's pid.

The pid of a container's init that was killed and reaped is given to another process (stranger.c, by
clone3(2) with ``set_tid``).  Then `state`, `kill`, `start`, `exec` and `delete` are called.  In the
rounds "during", the exchange happens while the command runs, before one of its system calls; the
stepper of tests/faults/ stops it there.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.faults.stepping import names as call_names
from tests.soak.subjects import Subject, clear, left, look
from tests.support import processes, static_program
from tests.support.fast_path import BY_PYTHON
from tests.support.runtime import execute

SOURCE = Path(__file__).with_name("stranger.c")
TICK_SECONDS = 0.011  # start times have a resolution of a hundredth of a second
MADE = "made"
FREE_SECONDS = 0.5


class Strangers:
    """A running program that starts strangers, one at a time."""

    def __init__(self, directory: Path) -> None:
        program = static_program.build(directory / "stranger", SOURCE)
        self._process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        return self._process.stdout.readline().strip()

    @contextmanager
    def at(self, pid: int) -> Iterator[bool]:
        """Start a stranger with this pid; yields False if the pid was taken meanwhile."""
        made = self._ask(str(pid)) == MADE
        try:
            yield made
        finally:
            if made:
                self._ask("end")

    def close(self) -> None:
        """End the program."""
        self._process.communicate()


def harm(pid: int) -> str:
    """Return what was done to the stranger, "" if nothing."""
    if not processes.alive(pid):
        return "the stranger was killed"
    found = {}
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        found[name] = value.strip()
    pending = int(found["ShdPnd"], 16) | int(found["SigPnd"], 16)
    if pending:
        return f"the stranger got signals {pending:x}"
    own, theirs = (Path(f"/proc/{one}/cgroup").read_text() for one in ("self", pid))
    return "" if own == theirs else "the stranger was moved to another cgroup"


@dataclass(frozen=True)
class Case:
    """A kind of round: whether the container was started, and how it is deleted."""

    started: bool
    forced: bool
    python: bool

    def __str__(self) -> str:
        parts = ["started" if self.started else "created", "delete"]
        parts += ["--force"] if self.forced else []
        return " ".join([*parts, "by the interpreter"] if self.python else parts)


CASES = [
    Case(started, forced, python)
    for python in (False, True)
    for started in (False, True)
    for forced in (False, True)
]


def bring(subject: Subject, name: str, started: bool) -> int:
    """Create a container whose start time is a tick ago; return its pid."""
    subject.spawn(*subject.create_words(name))
    if started:
        subject.spawn(*subject.words("start", name))
    time.sleep(TICK_SECONDS)
    return subject.pid(name)


def kill(pid: int) -> None:
    """Kill and reap an init."""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def send(pid: int, name: str) -> None:
    """Send a signal to a stranger; wait for its exit after KILL."""
    number = signal.Signals[f"SIG{name}"]
    os.kill(pid, number)
    if number == signal.SIGKILL:
        processes.until(lambda: not processes.alive(pid))


def one_round(subject: Subject, strangers: Strangers, case: Case) -> list[str] | None:
    """Return the problems of a round, None if the pid was taken by another process."""
    name = f"{subject.prefix}-reused"
    before = look(subject)
    pid = bring(subject, name, case.started)
    kill(pid)
    with strangers.at(pid) as made:
        problems = _commands(subject, name, pid, case) if made else []
    if not made:
        subject.spawn(*subject.words("delete", "--force", name))
        return None
    problems += [f"left: {line}" for line in left(subject, before)]
    if problems:
        clear(subject, before)
    return [f"{case}: {line}" for line in problems]


def _commands(subject: Subject, name: str, pid: int, case: Case) -> list[str]:
    """Call the commands; return what went wrong."""
    options = [BY_PYTHON] if case.python and subject.own else []
    words = subject.words(*options)
    found = []
    shown = execute([*words, "state", name])
    if shown.status != 0 or json.loads(shown.out)["status"] != "stopped":
        found.append(f"state: {shown.out or shown.err}")
    must_fail = [("kill", name, "TERM"), ("kill", name, "KILL"), ("start", name)]
    for command in [*must_fail, ("exec", name, "true")]:
        done = execute([*words, *command])
        if done.status == 0:
            found.append(f"{command[0]} {' '.join(command[2:])}: succeeds")
    force = ["--force"] if case.forced else []
    done = execute([*words, "delete", *force, name])
    if done.status != 0:
        found.append(f"delete: {done.err.strip()}")
    return [*found, hurt] if (hurt := harm(pid)) else found


@dataclass(frozen=True)
class During:
    """A command during which the pid is reused."""

    words: tuple[str, ...]
    started: bool
    python: bool

    def __str__(self) -> str:
        return " ".join(self.words) + (" by the interpreter" if self.python else "")


DURING = [
    During(words, started, python)
    for python in (False, True)
    for words, started in (
        (("state", "ID"), True),
        (("kill", "ID", "TERM"), True),
        (("kill", "ID", "KILL"), True),
        (("start", "ID"), False),
        (("delete", "ID"), False),
        (("delete", "--force", "ID"), True),
    )
] + [
    During(("exec", "ID", "true"), True, False),
    During(("kill", "--all", "ID", "KILL"), True, True),
    During(("pause", "ID"), True, False),
    During(("update", "--pids-limit", "50", "ID"), True, False),
]


class Stepped:
    """Exchanges the init for a stranger while a command is stopped before a system call."""

    def __init__(self, subject: Subject, strangers: Strangers, stepper: Path, work: Path) -> None:
        self._subject = subject
        self._strangers = strangers
        self._stepper = stepper
        self._log = work / "stepper.log"
        self._output = work / "stepper.output"

    def _command(self, during: During, name: str) -> list[str]:
        options = [BY_PYTHON] if during.python else []
        return self._subject.words(*options, *(name if w == "ID" else w for w in during.words))

    def calls(self, during: During) -> int:
        """Return the number of system calls of the command's first process."""
        name = f"{self._subject.prefix}-stepped"
        pid = bring(self._subject, name, during.started)
        self._run(["list"], self._command(during, name))
        self._end(name, pid)
        lines = self._log.read_text().splitlines()
        return sum(line.startswith("call\t0\t") for line in lines)

    def one_round(self, during: During, boundary: int) -> list[str] | None:
        """Return the problems of a round; None if the pid could not be reused at that call.

        Either the command ended before it, or it holds a process of the container's pid namespace,
        without which the init does not end.
        """
        subject, name = self._subject, f"{self._subject.prefix}-stepped"
        before = look(subject)
        pid = bring(subject, name, during.started)
        with self._output.open("wb") as output:
            words = [str(self._stepper), str(self._log), "hold", "x", "0", str(boundary), "--"]
            process = subprocess.Popen(
                [*words, *self._command(during, name)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        if not _is_held(process.pid):
            process.wait()
            self._end(name, pid)
            return None
        if processes.alive(pid):
            os.kill(pid, signal.SIGKILL)
        if not processes.until(lambda: os.waitpid(pid, os.WNOHANG)[0] == pid, FREE_SECONDS):
            os.kill(process.pid, signal.SIGCONT)
            process.wait()
            self._end(name, pid)
            return None
        with self._strangers.at(pid) as made:
            os.kill(process.pid, signal.SIGCONT)
            problems = self._judge(process, pid) if made else []
        process.wait()
        subject.spawn.all([subject.words("delete", "--force", name)])
        problems += [f"left: {line}" for line in left(subject, before)]
        if problems:
            clear(subject, before)
        where = f"{during}: {self._boundary()}"
        return [f"{where}: {line}" for line in problems] if made else None

    def _judge(self, process: subprocess.Popen[bytes], pid: int) -> list[str]:
        problems = []
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            problems.append("the command hangs")
        text = self._output.read_text(errors="replace")
        if "Traceback" in text or "internal error" in text:
            problems.append(f"no clear error: {text.strip()}")
        return [*problems, hurt] if (hurt := harm(pid)) else problems

    def _boundary(self) -> str:
        for line in self._log.read_text().splitlines():
            if line.startswith("acted"):
                _, _, index, number, path = line.split("\t")
                return f"#{index} {call_names()[int(number)]} {path}".strip()
        return "?"

    def _run(self, action: list[str], command: list[str]) -> None:
        execute([str(self._stepper), str(self._log), *action, "--", *command])

    def _end(self, name: str, pid: int) -> None:
        self._subject.spawn.all([self._subject.words("delete", "--force", name)])
        os.waitpid(pid, 0)


def _is_held(stepper: int) -> bool:
    """Wait until the stepper has stopped itself; return False if it has exited."""
    options = os.WEXITED | os.WSTOPPED | os.WNOWAIT
    result = os.waitid(os.P_PID, stepper, options)
    return result is not None and result.si_code == os.CLD_STOPPED
