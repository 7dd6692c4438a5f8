"""The protocol between the host and the executor.

The creation uses one SOCK_SEQPACKET socket pair.  The start gate is a listening socket of the same
type in the state directory.  Each message is one packet.

    create                          executor (then init)
      | ---- clone3, execveat ------->  |
      |                                 |  carries out operations ...
      | <--- INIT_PID ----------------  |  only if it forks; may arrive after READY (clone_process)
      | <--- STAGE maps --------------  |  only with a new user namespace
      | ---- GO (maps are written) -->  |
      | <--- MOUNT + descriptor ------  |  only without a mount namespace: the mount of the root
      | ---- GO (it is recorded) ---->  |
      | <--- STAGE cgroup ------------  |
      | ---- GO + cgroup files ------>  |  it enters these v1 cgroups; no files if it is inside
      | <--- CONSOLE + master --------  |  only with a terminal
      | <--- STAGE hooks -------------  |  only with prestart or createRuntime hooks
      | ---- GO (they have run) ----->  |
      | <--- STAGE ready -------------  |
      |  writes and renames the state   |
      | ---- GO --------------------->  |  from here on, the executor outlives its creator
                                        |
    start                               |  accepts a connection on the gate
      | ---- connect, GO ------------>  |  runs startContainer hooks, loads the seccomp filter
      | <--- LISTENER + descriptor ---  |  only with SCMP_ACT_NOTIFY
      | ---- GO (the agent has it) -->  |
      | <--- EXEC --------------------  |
      | <--- end of file -------------  |  because execve closes the descriptor

    mounts add, mounts remove           executor, in the container's mount namespace
      | <--- MOUNT + descriptor ------  |  before it attaches, changes or unmounts a mount
      | ---- GO or SKIP ------------->  |  GO if the host recognises the mount, else SKIP
      | <--- STAGE done --------------  |
      |  kills the executor             |

Instead of any of its messages, the executor may send FAILURE, followed by end of file.  End of file
alone means that the executor was killed.  If the host's end is closed, the creator was killed, and
the executor exits.  A connection to the gate that ends without GO only checks that the executor
still waits; the executor goes back to waiting.
"""

from __future__ import annotations

import posix
from _struct import Struct
from collections.abc import Iterable, Sequence
from socket import socket

from ociruntime.base.errors import HostError, StepError
from ociruntime.runtime.plan import operation_table as ops
from ociruntime.runtime.plan.operation_table import (
    MESSAGE_CONSOLE,
    MESSAGE_FAILURE,
    MESSAGE_GO,
    MESSAGE_LISTENER,
    MESSAGE_MOUNT,
    MESSAGE_SKIP,
)
from ociruntime.runtime.plan.plan import Operation

SOL_SOCKET = 1
SCM_RIGHTS = 1
MSG_CMSG_CLOEXEC = 0x40000000
MSG_NOSIGNAL = 0x4000

SCM_CREDENTIALS = 2
SO_PASSCRED = 16

SHORT = Struct("=IIii")
LONG = Struct("=IIii32s512s3072s")
NUMBER = Struct("=i")
# The sender's credentials (32 bytes), then one descriptor, or two: padding makes no difference.
ANCILLARY_SPACE = 32 + 24
WITH_DESCRIPTOR = (MESSAGE_CONSOLE, MESSAGE_LISTENER, MESSAGE_MOUNT)
GO_FILES = 32  # must match csrc/executor/executor.h


class Message:
    """A message from the executor.

    ``value``: the stage, or the index of the operation.  ``pid``: the pid in INIT_PID.  ``error``:
    an errno, or the wait status of a hook.  ``call``, ``argument`` and ``detail``: texts that
    describe a failure, else "".  ``fd``: a received descriptor, or -1.  ``sender``: the sender's
    pid according to the kernel.  ``sender`` is 0 if the kernel does not report the pid, or if the
    sender is not visible in our pid namespace.
    """

    __slots__ = ("argument", "call", "detail", "error", "fd", "kind", "pid", "sender", "value")

    def __init__(self, data: bytes, fd: int = -1, sender: int = 0) -> None:
        self.kind, self.value, self.pid, self.error = SHORT.unpack_from(data)
        self.call = self.argument = self.detail = ""
        self.fd = fd
        self.sender = sender
        if self.kind == MESSAGE_FAILURE and len(data) == LONG.size:
            self.call, self.argument, self.detail = map(_text, LONG.unpack(data)[4:])

    def close_descriptor(self) -> None:
        """Close the received descriptor, if there is one, and forget it."""
        if self.fd >= 0:
            posix.close(self.fd)
            self.fd = -1  # a second close could hit another file


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode("utf-8", "replace")


def receive(channel: socket) -> Message | None:
    """Wait for the executor's next message; return None at end of file.

    A message that is too short comes from another process, not from the executor; its kind is set
    to 0.  Raises HostError if no message can be received.
    """
    try:
        data, ancillary, _, _ = channel.recvmsg(LONG.size, ANCILLARY_SPACE, MSG_CMSG_CLOEXEC)
    except ConnectionResetError:
        return None
    except OSError as error:
        raise HostError("receive a message from the executor", error) from None
    if not data and not ancillary:
        return None
    fds: list[int] = []
    sender = 0
    for level, kind, content in ancillary:
        if level == SOL_SOCKET and kind == SCM_CREDENTIALS:
            sender = NUMBER.unpack_from(content)[0]
        elif level == SOL_SOCKET and kind == SCM_RIGHTS:
            fds += [fd for (fd,) in NUMBER.iter_unpack(content)]
    if len(data) < SHORT.size:
        data = bytes(SHORT.size)
    accepted = fds[:1] if SHORT.unpack_from(data)[0] in WITH_DESCRIPTOR else []
    for fd in fds[len(accepted) :]:
        posix.close(fd)  # not from the executor: another process has taken over the channel
    return Message(data, accepted[0] if accepted else -1, sender)


def go(channel: socket, files: Sequence[int] = ()) -> bool:
    """Send GO, so that the executor continues; return False if it has exited.

    ``files``: descriptors of the ``tasks`` files of the v1 cgroups that the executor is to enter,
    at most ``GO_FILES``.  The message also contains their number, because the kernel silently drops
    descriptors beyond the receiver's limit.  Raises HostError if the message cannot be sent for
    another reason.
    """
    message = SHORT.pack(MESSAGE_GO, len(files), 0, 0)
    if not files:
        return _send(channel, message)
    rights = Struct(f"={len(files)}i").pack(*files)
    return _send(channel, message, [(SOL_SOCKET, SCM_RIGHTS, rights)])


def skip(channel: socket) -> bool:
    """Send SKIP, so that the executor does nothing to the mount that it has just reported.

    Returns False if the executor has exited.  Raises HostError if the message cannot be sent for
    another reason.
    """
    return _send(channel, SHORT.pack(MESSAGE_SKIP, 0, 0, 0))


def _send(
    channel: socket, message: bytes, ancillary: Iterable[tuple[int, int, bytes]] = ()
) -> bool:
    """Send a message; return False if the executor has exited.

    Raises HostError for any other error; if it were ignored, the executor would wait for the lost
    message forever.
    """
    try:
        channel.sendmsg([message], ancillary, MSG_NOSIGNAL)
    except (BrokenPipeError, ConnectionResetError):
        return False
    except OSError as error:
        raise HostError("send a message to the executor", error) from None
    return True


# The check of the executor's messages: it may send those of its plan, each once, in order.
#
# In a shared pid namespace another container's process may trace the process that holds the
# channel, and take a descriptor of the channel from it. Messages from such a process must not
# change anything on the host: a repeated stage would be answered with descriptors of cgroups, or
# with hooks run as root.

CODES = {name: code for code, (name, _, _) in enumerate(ops.OPERATIONS, 1)}
SYNC, WAIT_START = CODES["sync"], CODES["wait_start"]
CLONE_PROCESS = CODES["clone_process"]
# Operation -> the message that the executor sends for it, once.
SENDERS = {
    CODES["clone_init"]: ops.MESSAGE_INIT_PID,
    CLONE_PROCESS: ops.MESSAGE_INIT_PID,
    CODES["console"]: ops.MESSAGE_CONSOLE,
    CODES["recorded_root"]: ops.MESSAGE_MOUNT,
    CODES["seccomp"]: ops.MESSAGE_LISTENER,
    CODES["exec"]: ops.MESSAGE_EXEC,
}
NAMES = {
    ops.MESSAGE_STAGE: "stage",
    ops.MESSAGE_INIT_PID: "pid",
    ops.MESSAGE_CONSOLE: "console",
    ops.MESSAGE_MOUNT: "mount",
    ops.MESSAGE_LISTENER: "listener",
    ops.MESSAGE_EXEC: "exec",
}


class Expected:
    """The messages that a plan's executor has yet to send; all others are refused."""

    __slots__ = ("_others", "_stages")

    def __init__(self, operations: Sequence[Operation]) -> None:
        codes = [operation.code for operation in operations]
        # Messages after the wait are sent to `start`, on another channel.
        end = codes.index(WAIT_START) if WAIT_START in codes else len(codes)
        self._stages = [each.values[0] for each in operations[:end] if each.code == SYNC]
        self._others = [SENDERS[code] for code in codes[:end] if code in SENDERS]

    def take(self, message: Message) -> None:
        """Accept the next message, or raise StepError if the plan does not send it at this point.

        Closes the descriptor of a refused message.
        """
        if message.kind == ops.MESSAGE_FAILURE:
            return  # the executor sends nothing after a FAILURE
        if message.kind == ops.MESSAGE_STAGE:
            if self._stages[:1] == [message.value]:
                self._stages.pop(0)
                return
        elif message.kind in self._others and is_complete(message):
            self._others.remove(message.kind)
            return
        message.close_descriptor()
        raise unexpected(message)


def is_complete(message: Message) -> bool:
    """Return False if the message lacks the descriptor that its kind requires, else True."""
    return message.fd >= 0 or message.kind not in WITH_DESCRIPTOR


def unexpected(message: Message) -> StepError:
    """Return the error for a message that the executor does not send at this point of its plan."""
    name = NAMES.get(message.kind, str(message.kind))
    number = message.pid if message.kind == ops.MESSAGE_INIT_PID else message.value
    return StepError(
        f"receive a message from the executor: unexpected message: {name} {number}",
        "a process in the pid namespace that the container joins may have sent it",
    )


def check_listener(message: Message) -> None:
    """Raise StepError unless the message contains a seccomp listener (seccomp_unotify(2))."""
    try:
        link = posix.readlink(f"/proc/self/fd/{message.fd}")
    except OSError:
        link = ""
    if link != "anon_inode:seccomp notify":
        raise unexpected(message)
