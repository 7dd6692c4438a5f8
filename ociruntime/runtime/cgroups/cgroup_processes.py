"""List and kill the processes in a cgroup, and wait for them to exit."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator, Sequence

from ociruntime.base.files import cgroup_tree, whole_number
from ociruntime.base.linux import SIGKILL
from ociruntime.base.process import open_pid, signal_pinned
from ociruntime.runtime.cgroups.control_files import (
    GONE,
    failure,
    is_directory,
    read,
    write,
)

_ROUNDS = 100


def tree(directory: str) -> Iterator[str]:
    """Yield the paths of all cgroups below ``directory``, children first, then ``directory``.

    Yields nothing if ``directory`` no longer exists.  Raises HostError if a directory cannot be
    listed.
    """
    try:
        yield from cgroup_tree(directory, GONE)
    except OSError as error:
        raise failure(f'list "{error.filename}"', error) from None


def pids(directory: str) -> list[int]:
    """Return the pids in one cgroup, without its child cgroups; [] if the cgroup was removed.

    The kernel lists a process outside our PID namespace as 0; such entries are dropped.  A threaded
    v2 cgroup lists only threads; the result contains their processes, other threads of which may be
    in other cgroups.  Raises HostError if the kernel's list cannot be read.
    """
    for file in ("cgroup.procs", "cgroup.threads"):
        try:
            numbers = read(f"{directory}/{file}").split()
        except OSError as error:
            if error.errno in GONE:
                return []
            if error.errno == errno.EOPNOTSUPP:
                continue
            raise failure(f'read "{directory}/{file}"', error) from None
        ids = [number for text in numbers if (number := whole_number(text))]
        if file == "cgroup.procs":
            return ids
        # pidfd_open(2) refuses the id of a thread that is not a process's first.
        return sorted({pid for thread in ids if (pid := _process_of(thread))})
    return []


def _process_of(thread: int) -> int:
    """Return the pid of the process that has the thread ``thread``; 0 if the thread has exited.

    Raises HostError.
    """
    path = f"/proc/{thread}/status"
    try:
        status = read(path)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ESRCH):
            return 0
        raise failure(f'read "{path}"', error) from None
    return next(int(line[5:]) for line in status.splitlines() if line.startswith("Tgid:"))


def processes(directories: Sequence[str]) -> list[int]:
    """Return the pids in these cgroups and in all cgroups below, sorted and without duplicates."""
    members: set[int] = set()
    for top in directories:
        for directory in tree(top):
            members.update(pids(directory))
    return sorted(members)


def kill_unified(directory: str) -> bool:
    """Kill all processes in a v2 cgroup and below it with cgroup.kill.

    Returns False if the cgroup has no cgroup.kill (before Linux 5.14) or is threaded.  Raises
    HostError if the file cannot be written for another reason.
    """
    try:
        write(f"{directory}/cgroup.kill", "1")
    except OSError as error:
        if error.errno in (errno.ENODEV, errno.ESRCH):
            return True
        if error.errno in (errno.ENOENT, errno.EOPNOTSUPP):
            return not is_directory(directory)
        raise failure(f'write "{directory}/cgroup.kill"', error) from None
    return True


def kill_each(directories: Sequence[str]) -> None:
    """Send SIGKILL to every process in and below these cgroups, until no new process appears.

    Raises HostError if the processes cannot be listed or killed.
    """
    signalled: set[int] = set()
    for _ in range(_ROUNDS):
        new_pids = [pid for pid in processes(directories) if pid not in signalled]
        if not new_pids:
            return
        signal_pinned(new_pids, lambda: processes(directories), _open, _kill)
        signalled.update(new_pids)


def _open(pid: int) -> int:
    """Open a pidfd for process ``pid``; return -1 if it has exited.  Raises HostError."""
    try:
        return open_pid(pid)
    except OSError as error:
        raise failure(f"open process {pid}", error) from None


def _kill(pidfd: int, pid: int) -> None:
    from _signal import pidfd_send_signal  # type: ignore[import-not-found]

    try:
        pidfd_send_signal(pidfd, SIGKILL)
    except ProcessLookupError:
        pass
    except OSError as error:
        raise failure(f"kill process {pid}", error) from None


def wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    """Call ``condition`` at growing intervals until it returns True.

    Returns False if that takes more than ``seconds``.
    """
    deadline = time.monotonic() + seconds
    pause = 0.0001
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause)
        pause = min(pause * 2, 0.05)
    return True
