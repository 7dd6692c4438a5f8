"""A process's way into the cgroups of a container, for `create` and `exec`.

On v1 every move of a process into a cgroup waits for an RCU grace period, 9 ms and more, except
that of a thread which moves itself alone. So the executor, which has one thread, is sent
descriptors of the files ``tasks`` and writes "0" to them. It is born in the v2 cgroup
(CLONE_INTO_CGROUP), which waits for nothing either. Units of systemd, and more hierarchies than
one message has room for, are entered by pid.
"""

from __future__ import annotations

import posix

from ociruntime.executor.protocol import GO_FILES, go

TYPE_CHECKING = False
if TYPE_CHECKING:
    from socket import socket

    from ociruntime.cgroups.group import Cgroup
    from ociruntime.executor.protocol import Message

ENTER = "enter cgroup"  # the call of a failure in run_sync (csrc/executor/ops_namespaces.c)


def enter_cgroup(cgroup: Cgroup, pid: int, born_in_v2: bool, beside: int = 0) -> list[int]:
    """Move the executor ``pid`` into its cgroups, except those that it enters by itself.

    Returns the descriptors that it needs for these, for ``go_in``. ``beside`` as for
    ``Cgroup.attach``. Raises HostError.
    """
    by_itself = not cgroup.unit and len(cgroup.placements) <= GO_FILES
    cgroup.attach(pid, born_in_v2, beside, only_v2=by_itself)
    return cgroup.open_v1_entrances() if by_itself else []


def go_in(channel: socket, entrances: list[int]) -> None:
    """Let the executor go on, through ``entrances``, which are closed here."""
    go(channel, entrances)  # if it is gone, the next receive tells
    for fd in entrances:
        posix.close(fd)
    entrances.clear()


def refuse_entry(cgroup: Cgroup, pid: int, message: Message) -> None:
    """Raise HostError if ``message`` says that the executor ``pid`` could not enter a v1 cgroup."""
    if message.call == ENTER:
        error = OSError(message.error, posix.strerror(message.error))
        raise cgroup.entry_failure(pid, int(message.argument), error)
