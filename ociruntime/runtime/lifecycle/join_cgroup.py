"""Move a process into a container's cgroups, for `create` and `exec`.

On v1, moving a process into a cgroup waits for an RCU grace period of 9 ms or more, unless a thread
moves only itself.  Therefore the executor, which has one thread, gets descriptors of the ``tasks``
files and writes "0" to them.  The v2 cgroup needs no wait either: the executor is cloned into it
(CLONE_INTO_CGROUP).  In systemd units, and if there are more hierarchies than fit into one message,
the runtime writes the executor's pid to the files instead.
"""

from __future__ import annotations

import posix
from socket import socket

from ociruntime.runtime.cgroups.cgroup import Cgroup
from ociruntime.runtime.executor.protocol import GO_FILES, Message, go

ENTER = "enter cgroup"  # the call named in a FAILURE of run_sync (csrc/executor/ops_namespaces.c)


def attach(cgroup: Cgroup, pid: int, born_in_v2: bool, beside: int = 0) -> None:
    """Move the executor ``pid`` into ``cgroup``, except for v1 hierarchies that it enters itself.

    ``born_in_v2``: the executor was cloned into the v2 cgroup.  ``beside``: if the v2 cgroup of
    ``cgroup`` accepts no processes, use the v2 cgroup of this process instead; 0 for none.  Raises
    HostError.
    """
    cgroup.attach(pid, born_in_v2, beside, only_v2=_enters_by_itself(cgroup))


def let_in(channel: socket, cgroup: Cgroup) -> None:
    """Let the executor continue, with descriptors of the v1 cgroups to enter.

    Raises HostError.
    """
    entrances = cgroup.open_v1_entrances() if _enters_by_itself(cgroup) else []
    try:
        go(channel, entrances)  # if it has exited, the next receive reports that
    finally:
        for fd in entrances:
            posix.close(fd)


def _enters_by_itself(cgroup: Cgroup) -> bool:
    """Return whether the executor moves itself into the v1 cgroups."""
    return not cgroup.unit and len(cgroup.placements) <= GO_FILES


def refuse_entry(cgroup: Cgroup, pid: int, message: Message) -> None:
    """Raise HostError if ``message`` says that the executor ``pid`` could not enter a cgroup."""
    if message.call == ENTER:
        error = OSError(message.error, posix.strerror(message.error))
        raise cgroup.entry_failure(pid, int(message.argument), error)
