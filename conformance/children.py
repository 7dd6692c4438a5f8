"""Start child processes of a worker, and reap each one as soon as it exits.

The worker is the subreaper of its containers' processes, like an engine's monitor, and a runtime
may wait until they are reaped.  Cases must not use ``subprocess``, which would lose exit statuses.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_statuses: dict[int, int] = {}  # pid -> exit status of reaped children, negative for a signal


def install() -> None:
    """Install the SIGCHLD handler that reaps children."""
    signal.signal(signal.SIGCHLD, _reap)
    _reap()


def _reap(*_: object) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        _statuses[pid] = os.waitstatus_to_exitcode(status)


def spawn(
    command: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: int,
    stdout: int,
    stderr: int,
    pass_fds: Sequence[int] = (),
    before: Callable[[], None] | None = None,
) -> int:
    """Start a program by its absolute path; return its pid.

    ``before`` is called in the child before execve.  ``pass_fds`` stay open, with their numbers.
    """
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number in (signal.SIGALRM, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        # Copies first: one of the three may be another's target.
        copies = [os.dup(fd) for fd in (stdin, stdout, stderr)]
        for target, fd in enumerate(copies):
            os.dup2(fd, target)
        kept = sorted({0, 1, 2, *pass_fds})
        for low, high in zip(kept, [*kept[1:], 1 << 16], strict=True):
            os.closerange(low + 1, high)
        for fd in pass_fds:
            os.set_inheritable(fd, True)
        if cwd is not None:
            os.chdir(cwd)
        if before is not None:
            before()
        os.execve(command[0], list(command), dict(env or {}))
    except OSError as error:
        os.write(2, f"cannot execute {command[0]}: {error}\n".encode())
    finally:
        os._exit(127)


def wait(pid: int, seconds: float) -> int | None:
    """Wait for a process; return its exit status, negative for a signal.

    None if it still runs after ``seconds``, or if this process did not reap it.
    """
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        pidfd = -1
    if pidfd >= 0:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        ended = poll.poll(seconds * 1000)
        os.close(pidfd)
        if not ended:
            return None
    # The SIGCHLD handler may run a moment after the pidfd becomes readable.
    for _ in range(100):
        _reap()
        if pid in _statuses:
            break
        if pidfd >= 0 and not Path(f"/proc/{pid}").exists():
            break
        time.sleep(0.005)
    return _statuses.get(pid)


def status_of(pid: int) -> int | None:
    """Return the exit status of a reaped child, None if it is not reaped."""
    return _statuses.get(pid)


def descendants() -> set[int]:
    """Return the pids of all descendants of this process, without zombies."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="latin-1") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] not in "ZX":
                parents[int(entry)] = int(fields[1])
    found: set[int] = set()
    level = {os.getpid()}
    while level:
        level = {pid for pid, parent in parents.items() if parent in level} - found
        found |= level
    return found


def describe(pid: int) -> str:
    """Return "PID (COMMAND LINE)" for messages."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
        return f"{pid} ({words or Path(f'/proc/{pid}/comm').read_text().strip()})"
    except OSError:
        return f"{pid} (ended)"


def own() -> set[int]:
    """Return the pids of this process's children, including zombies."""
    found = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="latin-1") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == os.getpid():
                found.add(int(entry))
    return found
