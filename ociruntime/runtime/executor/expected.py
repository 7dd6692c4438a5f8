"""The messages that an executor may still send: each one of its plan, once and in order.

In a shared pid namespace a neighbour may trace the process that holds the channel, and take a
descriptor of the channel from it. Messages from such a neighbour must not change anything on the
host: a repeated stage would be answered with descriptors of cgroups, or with hooks run as root.
"""

from __future__ import annotations

import posix

from ociruntime.base.errors import StepError
from ociruntime.runtime.plan import ops

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ociruntime.runtime.executor.protocol import Message
    from ociruntime.runtime.plan.plan import Operation

CODES = {name: code for code, (name, _, _) in enumerate(ops.OPERATIONS, 1)}
SYNC, WAIT_START = CODES["sync"], CODES["wait_start"]
CLONE_PROCESS = CODES["clone_process"]
# The operation -> the message that it sends once.
SENDERS = {
    CODES["clone_init"]: ops.MESSAGE_INIT_PID,
    CLONE_PROCESS: ops.MESSAGE_INIT_PID,
    CODES["console"]: ops.MESSAGE_CONSOLE,
    CODES["seccomp"]: ops.MESSAGE_LISTENER,
    CODES["exec"]: ops.MESSAGE_EXEC,
}
NAMES = {
    ops.MESSAGE_STAGE: "stage",
    ops.MESSAGE_INIT_PID: "pid",
    ops.MESSAGE_CONSOLE: "console",
    ops.MESSAGE_LISTENER: "listener",
    ops.MESSAGE_EXEC: "exec",
}


class Expected:
    """The messages that are still to come from the executor of a plan."""

    __slots__ = ("_others", "_stages")

    def __init__(self, operations: Sequence[Operation]) -> None:
        codes = [operation.code for operation in operations]
        # Messages after the wait are sent to `start`, on another channel.
        end = codes.index(WAIT_START) if WAIT_START in codes else len(codes)
        self._stages = [each.values[0] for each in operations[:end] if each.code == SYNC]
        self._others = [SENDERS[code] for code in codes[:end] if code in SENDERS]

    def take(self, message: Message) -> None:
        """Cross a message off the list.  Raises StepError if it is not on it, or not the next."""
        if message.kind == ops.MESSAGE_FAILURE:
            return  # ends the conversation
        if message.kind == ops.MESSAGE_STAGE:
            if self._stages[:1] == [message.value]:
                self._stages.pop(0)
                return
        elif message.kind in self._others:
            self._others.remove(message.kind)
            return
        raise unexpected(message)


def unexpected(message: Message) -> StepError:
    """Return the error for a message that the executor would not have sent."""
    name = NAMES.get(message.kind, str(message.kind))
    number = message.pid if message.kind == ops.MESSAGE_INIT_PID else message.value
    return StepError(
        f"receive from the executor: unexpected message: {name} {number}",
        "a process in the pid namespace that the container joins may have sent it",
    )


def check_listener(message: Message) -> None:
    """Raise StepError unless the message brings the listener of a seccomp filter."""
    try:
        link = posix.readlink(f"/proc/self/fd/{message.fd}")
    except OSError:
        link = ""
    if link != "anon_inode:seccomp notify":
        raise unexpected(message)
