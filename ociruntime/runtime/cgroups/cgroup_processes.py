"""The processes in a cgroup: listing, killing, waiting."""

from __future__ import annotations

import errno
import posix
import time
from collections.abc import Callable, Iterator, Sequence

from ociruntime.base.files import cgroup_tree
from ociruntime.base.linux import SIGKILL
from ociruntime.runtime.cgroups.control_files import (
    GONE,
    failure,
    is_directory,
    read,
    whole,
    write,
)

_ROUNDS = 100


def tree(directory: str) -> Iterator[str]:
    """Yield the paths of all cgroups below ``directory``, children first, then ``directory``.

    Yields nothing if ``directory`` does not exist any more.  Raises HostError.
    """
    try:
        yield from cgroup_tree(directory, GONE)
    except OSError as error:
        raise failure(f"list {error.filename}", error) from None


def pids(directory: str) -> list[int]:
    """Return the pids in one cgroup, without its children; an empty list if it was removed.

    The kernel shows a process outside our PID namespace as 0; such entries are dropped.  A threaded
    v2 cgroup lists only thread ids, which pidfd_open(2) and kill(2) resolve to the process.
    Raises HostError.
    """
    for file in ("cgroup.procs", "cgroup.threads"):
        try:
            numbers = read(f"{directory}/{file}").split()
        except OSError as error:
            if error.errno in GONE:
                return []
            if error.errno == errno.EOPNOTSUPP:
                continue
            raise failure(f"read {directory}/{file}", error) from None
        return [pid for number in numbers if (pid := whole(number))]
    return []


def processes(directories: Sequence[str]) -> list[int]:
    """Return the pids in these cgroups and their descendants, sorted and without duplicates."""
    members: set[int] = set()
    for top in directories:
        for directory in tree(top):
            members.update(pids(directory))
    return sorted(members)


def kill_unified(directory: str) -> bool:
    """Kill a v2 cgroup's whole tree by cgroup.kill; return False on kernels without it (< 5.14)."""
    try:
        write(f"{directory}/cgroup.kill", "1")
    except OSError as error:
        if error.errno in (errno.ENODEV, errno.ESRCH):
            return True
        if error.errno in (errno.ENOENT, errno.EOPNOTSUPP):
            return not is_directory(directory)
        raise failure(f"write {directory}/cgroup.kill", error) from None
    return True


def kill_each(directories: Sequence[str]) -> None:
    """Send SIGKILL to every process in these cgroups; repeat until no new process appears."""
    signalled: set[int] = set()
    for _ in range(_ROUNDS):
        new_pids = [pid for pid in processes(directories) if pid not in signalled]
        if not new_pids:
            return
        _kill_members(new_pids, lambda: processes(directories))
        signalled.update(new_pids)


def _kill_members(candidates: Sequence[int], members: Callable[[], list[int]]) -> None:
    """Send SIGKILL through pidfds to the ``candidates`` that are still members of the cgroups.

    The pidfd is opened before ``members`` is called again: a pid reused in between cannot be hit.
    As many are killed at a time as the limit on open files permits.
    """
    from _signal import pidfd_send_signal  # type: ignore[import-not-found]

    waiting = list(candidates)
    while waiting:
        handles, waiting = _open(waiting)
        try:
            for pid in members():
                if pid in handles:
                    try:
                        pidfd_send_signal(handles[pid], SIGKILL)
                    except ProcessLookupError:
                        continue
                    except OSError as error:
                        raise failure(f"kill process {pid}", error) from None
        finally:
            for handle in handles.values():
                posix.close(handle)


def _open(pids: Sequence[int]) -> tuple[dict[int, int], list[int]]:
    """Open a pidfd of each process; return ({pid: pidfd}, pids left when descriptors ran out).

    Processes that have exited are in neither.  Raises HostError.
    """
    handles: dict[int, int] = {}
    for index, pid in enumerate(pids):
        try:
            handles[pid] = posix.pidfd_open(pid)
        except OSError as error:
            if error.errno in (errno.ESRCH, errno.EINVAL):
                continue
            # Listing the members needs a few descriptors as well.
            spare = list(handles)[len(handles) // 2 :]
            for each in spare:
                posix.close(handles.pop(each))
            if not handles or error.errno not in (errno.EMFILE, errno.ENFILE):
                for handle in handles.values():
                    posix.close(handle)
                raise failure(f"open process {pid}", error) from None
            return handles, [*pids[index:], *spare]
    return handles, []


def wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    """Call ``condition`` at growing intervals until it is true; return False after ``seconds``."""
    deadline = time.monotonic() + seconds
    pause = 0.0001
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause)
        pause = min(pause * 2, 0.05)
    return True
