"""The processes in a cgroup: listing, killing, waiting."""

from __future__ import annotations

import errno
import posix
import time

from ociruntime.base.files import cgroup_tree
from ociruntime.base.linux import SIGKILL
from ociruntime.runtime.cgroups.control_files import GONE, failure, is_directory, read, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_ROUNDS = 100


def tree(directory: str) -> Iterator[str]:
    """Yield the cgroups below ``directory``, children first, then itself; none if it is gone.

    A path is valid until the next one is requested.
    """
    try:
        yield from cgroup_tree(directory, GONE)
    except OSError as error:
        raise failure(f"list {error.filename}", error) from None


def pids(directory: str) -> list[int]:
    """Return the processes of one cgroup; none if it is gone.

    Processes outside our pid namespace appear as 0 and are left out.  A threaded v2 cgroup
    lists only threads; each thread id leads to its process.
    """
    for file in ("cgroup.procs", "cgroup.threads"):
        try:
            words = read(f"{directory}/{file}").split()
        except OSError as error:
            if error.errno in GONE:
                return []
            if error.errno == errno.EOPNOTSUPP:
                continue
            raise failure(f"read {directory}/{file}", error) from None
        return [int(word) for word in words if word != "0"]
    return []


def processes(directories: Sequence[str]) -> list[int]:
    """Return the processes of these cgroups and all below, each once, in ascending order."""
    found: set[int] = set()
    for top in directories:
        for directory in tree(top):
            found.update(pids(directory))
    return sorted(found)


def kill_unified(directory: str) -> bool:
    """Kill a v2 tree by cgroup.kill; return False on kernels without it (before 5.14)."""
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
    """Send SIGKILL to every member, in rounds until no new member appears."""
    signalled: set[int] = set()
    for _ in range(_ROUNDS):
        fresh = [pid for pid in processes(directories) if pid not in signalled]
        if not fresh:
            return
        _kill_members(fresh, lambda: processes(directories))
        signalled.update(fresh)


def _kill_members(wanted: Sequence[int], present: Callable[[], list[int]]) -> None:
    """Open a pidfd for each process, check that it is still a member, and only then kill it."""
    from _signal import pidfd_send_signal  # type: ignore[import-not-found]

    handles: dict[int, int] = {}
    try:
        for pid in wanted:
            try:
                handles[pid] = posix.pidfd_open(pid)
            except OSError as error:
                # The process is gone, or descriptors ran out: leave it to the next round.
                if error.errno not in (errno.ESRCH, errno.EINVAL, errno.EMFILE, errno.ENFILE):
                    raise failure(f"open process {pid}", error) from None
        for pid in present():
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


def wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    """Poll a condition at growing intervals; return False on timeout."""
    deadline = time.monotonic() + seconds
    pause = 0.0001
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause)
        pause = min(pause * 2, 0.05)
    return True
