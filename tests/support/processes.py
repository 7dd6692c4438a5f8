"""List and kill descendants of the test process."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable


def _stat_fields(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat after the command name; None if it has exited."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None


def alive(pid: int) -> bool:
    """Return whether the process exists and is no zombie."""
    fields = _stat_fields(pid)
    return fields is not None and fields[0] not in "ZX"


def state(pid: int) -> str:
    """Return the process's state letter (proc_pid_stat(5)); "" if it has exited."""
    fields = _stat_fields(pid)
    return fields[0] if fields else ""


def parent(pid: int) -> int:
    """Return the parent's pid, 0 if the process has exited."""
    fields = _stat_fields(pid)
    return int(fields[1]) if fields else 0


def ends_with_few_descriptors(act: Callable[[list[int]], object]) -> list[int]:
    """Return how 40 processes end if ``act(pids)`` can open only 12 more files.

    The processes that it spares end by SIGUSR1.
    """
    sleeping = [subprocess.Popen(["sleep", "100"]) for _ in range(40)]
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 12, before[1]))
    try:
        act([one.pid for one in sleeping])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        statuses = []
        for one in sleeping:
            try:
                statuses.append(one.wait(5))
            except subprocess.TimeoutExpired:
                one.send_signal(signal.SIGUSR1)
                statuses.append(one.wait())
    return statuses


def namespaces(kind: str) -> set[str]:
    """Return the namespaces of a kind that processes of the machine are in, as in ``ns/KIND``."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it has exited
            found.add(os.readlink(f"/proc/{pid}/ns/{kind}"))
    return found


def descendants(ancestor: int = 0) -> set[int]:
    """Return the running processes below ``ancestor``, by default this process; no zombies."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := _stat_fields(int(name))) is not None:
            children.setdefault(int(fields[1]), []).append(int(name))
    found: set[int] = set()
    pending = [ancestor or os.getpid()]
    while pending:
        for pid in children.get(pending.pop(), []):
            found.add(pid)
            pending.append(pid)
    return {pid for pid in found if alive(pid)}


# Subprocesses of ours that somebody will wait for, while orphans are reaped.
awaited: set[int] = set()


def _is_orphan(pid: int) -> bool:
    """Return whether it is a zombie that we have adopted, not one that we have started."""
    return pid not in awaited and state(pid) == "Z" and parent(pid) == os.getpid()


def reap_orphans() -> None:
    """Reap every exited child except those in ``awaited``."""
    if awaited:
        for name in os.listdir("/proc"):
            if name.isdigit() and _is_orphan(int(name)):
                os.waitpid(int(name), os.WNOHANG)
        return
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return


def describe(pid: int) -> str:
    """Return pid and command line, for messages."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        words = "gone"
    return f"{pid} ({words})"


def end(pids: set[int]) -> None:
    """Kill each process and wait until it has exited."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    until(lambda: not any(alive(pid) for pid in pids), 20)


def until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Poll until the condition holds; return False on timeout."""
    deadline = time.monotonic() + seconds
    pause = 0.002
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
        pause = min(pause * 2, 0.05)
    return True
