"""Start the executor with clone3(2) and execveat(2); kill it and reap it."""

from __future__ import annotations

import posix
from select import POLLIN, poll

from ociruntime.base.errors import HostError, InternalError, RuntimeFailure
from ociruntime.base.sealed_program import MFD_CLOEXEC, sealed_program
from ociruntime.runtime.executor.protocol import (
    CLONE_PROCESS,
    SO_PASSCRED,
    SOL_SOCKET,
    receive,
    unexpected,
)
from ociruntime.runtime.plan.operation_table import MESSAGE_INIT_PID
from ociruntime.runtime.plan.plan import encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    import socket as _socket

    from ociruntime.runtime.executor.protocol import Message
    from ociruntime.runtime.plan.plan import Plan
else:
    import _signal
    import _socket


PROGRAM = __file__.rpartition("/")[0] + "/_executor"
REAP_MILLISECONDS = 10_000
# The C library reserves these signals, so only a caller can have ignored them: unknown to Python.
RESERVED_SIGNALS = 1 << 31 | 1 << 32
SHUT_RD = 0
OWN_STREAMS = (0, 1, 2)


class Executor:
    """A running executor process; ``channel`` is our end of the socket pair that connects us to it.

    ``pid`` and ``pidfd`` refer to the process that becomes the container's program or, until the
    message INIT_PID has arrived, to its parent.
    """

    __slots__ = ("_other_sender", "_replaced", "channel", "pid", "pidfd", "plan")

    def __init__(self, plan: Plan, pid: int, pidfd: int, channel: _socket.socket) -> None:
        self._replaced = False
        self._other_sender = 0  # of a message: the executor's child, or a forger
        self.plan = plan
        self.pid = pid
        self.pidfd = pidfd
        self.channel = channel

    def receive(self) -> Message | None:
        """Wait for the next message; return None at end of file or if the executor has exited.

        If the executor was killed before it could report its child (clone_process), there is no end
        of file: the child keeps the channel open while it waits for our answer.  Raises HostError
        if no message can be received.
        """
        poller = poll()
        poller.register(self.channel.fileno(), POLLIN)
        poller.register(self.pidfd, POLLIN)
        if self.channel.fileno() not in [fd for fd, _ in poller.poll()]:
            # It is dead.  What it has sent before its exit is in the queue by now.
            poller.unregister(self.pidfd)
            if not poller.poll(0):
                return None
        message = receive(self.channel)
        if message is not None and message.sender != self.pid:
            self._other_sender = message.sender
        return message

    def became(self, message: Message) -> None:
        """Set ``pid`` and ``pidfd`` to the executor's child, whose pid is in the message INIT_PID.

        Raises StepError if the message has the wrong sender, and HostError if the process is not
        our child.

        A process that traces the init can send any message, but the kernel reports the true sender.
        For clone_init, the sender must be the child itself.  For clone_process, the sender must be
        the parent: it is outside the pid namespace, so no process inside can trace it.
        """
        pid = message.pid
        parent_reports = any(each.code == CLONE_PROCESS for each in self.plan.operations)
        if self._replaced or message.sender != (self.pid if parent_reports else pid):
            raise unexpected(message)
        self._become(pid)

    def _become(self, pid: int) -> None:
        """Make this object refer to our child process ``pid``.

        Raises HostError if ``pid`` is not a child of this process.
        """
        try:
            posix.waitid(posix.P_PID, pid, posix.WEXITED | posix.WNOHANG | posix.WNOWAIT)
            pidfd = posix.pidfd_open(pid)
        except OSError as error:
            raise HostError(f"open process {pid}, the container's init", error) from None
        parent, parent_fd = self.pid, self.pidfd
        # At once: a KeyboardInterrupt in a call below must not find a closed descriptor.
        self.pid, self.pidfd, self._replaced = pid, pidfd, True
        _reap(parent, parent_fd)
        posix.close(parent_fd)

    def explain(self, failure: BaseException, root: str) -> None:
        """Add a note to a KeyboardInterrupt: the executor was still setting up the root.

        The note helps if the executor hangs in a filesystem.  ``root`` is the path of the root
        filesystem.  Does nothing if ``failure`` is another exception.
        """
        if isinstance(failure, KeyboardInterrupt):
            failure.add_note(f'the executor was still setting up the root "{root}"')

    def reap(self) -> None:
        """Reap the child process ``pid``; wait up to REAP_MILLISECONDS for it to exit.

        A process that traces the child can hide its exit from us.  In that case we leave the child,
        and whichever process adopts our children reaps it.
        """
        _reap(self.pid, self.pidfd)

    def discard(self) -> None:
        """Kill and reap the executor, and the child that it may have forked; close the descriptors.

        May be called more than once.

        We may not know the child's pid: the message INIT_PID may still be unread, or the executor
        may have been killed before it sent INIT_PID.  In the second case, any other message from
        the child reveals its pid, because the kernel reports the sender.  A child that has sent
        nothing before we shut down the channel cannot send EXEC, and exits.
        """
        if self.pidfd < 0:
            return
        self._end()
        self._end_child(self._other_sender)
        if self.channel.fileno() >= 0:
            self.channel.shutdown(SHUT_RD)  # from here on, no process can send on the channel
            while (message := self._next_queued()) is not None:
                message.close_descriptor()
                if message.kind != MESSAGE_INIT_PID:
                    self._end_child(message.sender)
                    continue
                try:
                    self.became(message)
                except RuntimeFailure:
                    continue  # forged by another process; the executor's own message may follow
                self._end()
        self.reap()
        self.close()

    def _end_child(self, pid: int) -> None:
        """Kill process ``pid``, the sender of a message, if the executor has forked it."""
        if pid in (0, self.pid):
            return
        try:
            self._become(pid)
        except HostError:
            return  # forged by another process
        self._end()

    def _next_queued(self) -> Message | None:
        """Return the next message that was sent before ``channel`` was shut down, or None."""
        try:
            # If the executor exits without reading our GO, the kernel reports ECONNRESET once
            # before it delivers the queued messages.
            return receive(self.channel) or receive(self.channel)
        except HostError:
            return None  # the caller raises the original error

    def _end(self) -> None:
        """Kill the process and wait up to REAP_MILLISECONDS for it to exit, but do not reap it."""
        try:
            _signal.pidfd_send_signal(self.pidfd, _signal.SIGKILL)
        except OSError:
            return  # already reaped
        poller = poll()
        poller.register(self.pidfd, POLLIN)
        poller.poll(REAP_MILLISECONDS)

    def close(self) -> None:
        """Close ``channel`` and ``pidfd``."""
        self.channel.close()
        pidfd, self.pidfd = self.pidfd, -1
        if pidfd >= 0:
            posix.close(pidfd)

    def kill(self) -> None:
        """Kill and reap the process, but keep the descriptors open."""
        self._end()
        self.reap()


def _reap(pid: int, pidfd: int) -> None:
    try:
        if posix.waitpid(pid, posix.WNOHANG)[0] == 0:
            poller = poll()
            poller.register(pidfd, POLLIN)
            poller.poll(REAP_MILLISECONDS)
            posix.waitpid(pid, posix.WNOHANG)
    except OSError:
        pass  # already reaped


def spawn(
    plan: Plan,
    init_fd: int,
    cgroup_fd: int,
    times_fd: int = -1,
    streams: tuple[int, int, int] = OWN_STREAMS,
) -> Executor:
    """Start an executor that carries out ``plan``, and return it.

    ``init_fd``: the start gate of a new init, or a pidfd of the init to join.  ``cgroup_fd``: the
    v2 cgroup to start in, or -1 for our own.  ``streams``: descriptors that become 0, 1 and 2 of
    the executor.  ``times_fd``: a memfd for the start times of the executor and its operations, in
    nanoseconds of CLOCK_REALTIME; -1 for none.  Raises HostError if the executor cannot be started.
    """
    executor_fd = sealed_program(PROGRAM)
    try:
        plan_fd = plan_file(encode(plan))
        try:
            return _start(
                plan,
                {
                    "executor_fd": executor_fd,
                    "plan_fd": plan_fd,
                    "init_fd": init_fd,
                    "cgroup_fd": cgroup_fd,
                    "times_fd": times_fd,
                    "streams": streams,
                    "clone_flags": plan.clone_flags,
                    "ignored": _ignored_signals(),
                },
            )
        finally:
            posix.close(plan_fd)
    finally:
        posix.close(executor_fd)


def _ignored_signals() -> int:
    """Return a bit mask of the signals that this process ignores, or may ignore."""
    ignored = RESERVED_SIGNALS
    for number in _signal.valid_signals():
        if _signal.getsignal(number) == _signal.SIG_IGN:
            ignored |= 1 << (number - 1)
    return ignored


def _start(plan: Plan, settings: dict[str, object]) -> Executor:
    try:
        from ociruntime._system_calls import ffi, lib
    except ImportError as error:  # a lack of descriptors or memory is an ImportError, too
        raise RuntimeFailure(f"load the module that starts the executor: {error}") from None

    ours, theirs = _pair()
    request = ffi.new("struct oci_spawn *", {**settings, "sync_fd": theirs.fileno()})
    result = lib.oci_spawn(request)
    theirs.close()
    if result < 0:
        ours.close()
        raise _refused(-result, ffi.string(request.failed).decode())
    return Executor(plan, request.pid, request.pidfd, ours)


def _pair() -> tuple[_socket.socket, _socket.socket]:
    """Return the two ends of a socket pair: ours, and the executor's.

    Raises HostError if the pair cannot be created.
    """
    # On our end, SO_PASSCRED makes the kernel report the sender of each message.
    try:
        ours, theirs = _socket.socketpair(
            _socket.AF_UNIX, _socket.SOCK_SEQPACKET | _socket.SOCK_CLOEXEC
        )
        ours.setsockopt(SOL_SOCKET, SO_PASSCRED, 1)
    except OSError as error:
        raise HostError("create the executor's socket pair", error) from None
    return ours, theirs


REFUSALS: dict[int, str] = {
    1: 'new namespaces need root, or {"type": "user"} in linux.namespaces with id mappings:'
    " `ociruntime spec --rootless` writes such a config.json",
    11: "a limit on processes is reached: pids.max of the cgroup, or RLIMIT_NPROC",
    16: "the cgroup cannot take processes: it has controllers enabled for its children",
    22: "the kernel does not support one of the namespaces in linux.namespaces",
    28: "a limit on namespaces is reached: /proc/sys/user/max_*_namespaces",
    38: "the kernel is older than 5.7, or a seccomp filter of the caller forbids clone3",
}


def _refused(errno: int, call: str) -> HostError:
    """Return the error for a failure of the system call ``call`` before the executor ran."""
    error = OSError(errno, posix.strerror(errno))
    return HostError(f"start the container's init: {call}", error, REFUSALS.get(errno, ""))


def plan_file(plan: bytes) -> int:
    """Write ``plan`` to a new memfd and return its descriptor.

    Raises HostError if the memfd cannot be created or written.
    """
    try:
        fd = posix.memfd_create("plan", MFD_CLOEXEC)
        try:
            if posix.write(fd, plan) != len(plan):
                raise InternalError("write the plan to a memory file: only a part was written")
        except BaseException:
            posix.close(fd)
            raise
    except OSError as error:
        raise HostError("write the plan to a memory file", error) from None
    return fd
