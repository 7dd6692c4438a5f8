"""Start the executor: descriptors, one clone3(2), one execveat(2)."""

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
SHUT_RD = 0
OWN_STREAMS = (0, 1, 2)


class Executor:
    """A started executor: ``channel`` is the connection to it.

    ``pid`` and ``pidfd`` are those of the process that becomes the container's init (of its parent
    until INIT_PID names another).
    """

    __slots__ = ("_replaced", "channel", "pid", "pidfd", "plan")

    def __init__(self, plan: Plan, pid: int, pidfd: int, channel: _socket.socket) -> None:
        self._replaced = False
        self.plan = plan
        self.pid = pid
        self.pidfd = pidfd
        self.channel = channel

    def became(self, message: Message) -> None:
        """Switch to the process that INIT_PID names, which the started one has forked.

        Raises StepError if another process sent the message, and HostError if the process is not
        our child. A process that traces the init can send any message, but the kernel identifies
        the sender: the parent that exits (clone_process), which is not in the tracer's pid
        namespace, or the named process itself (clone_init).
        """
        pid = message.pid
        parent_tells = any(each.code == CLONE_PROCESS for each in self.plan.operations)
        if self._replaced or message.sender != (self.pid if parent_tells else pid):
            raise unexpected(message)
        try:
            posix.waitid(posix.P_PID, pid, posix.WEXITED | posix.WNOHANG | posix.WNOWAIT)
            pidfd = posix.pidfd_open(pid)
        except OSError as error:
            raise HostError(f"open the container's init {pid}", error) from None
        self.reap()
        posix.close(self.pidfd)
        self.pid, self.pidfd, self._replaced = pid, pidfd, True

    def reap(self) -> None:
        """Wait for the process's exit; it is our child.

        A process in its pid namespace that traces it can hide its exit from us: then the process
        that adopts our children has to reap it.
        """
        try:
            if posix.waitpid(self.pid, posix.WNOHANG)[0] == 0:
                poller = poll()
                poller.register(self.pidfd, POLLIN)
                poller.poll(REAP_MILLISECONDS)
                posix.waitpid(self.pid, posix.WNOHANG)
        except OSError:
            pass  # reaped before

    def discard(self) -> None:
        """Kill the process, and one that it has forked unknown to us; close the descriptors.

        It is reaped last: until then its pid is not reused, so no other process can send INIT_PID
        in its name.
        """
        self._end()
        if self.channel.fileno() >= 0:
            self.channel.shutdown(SHUT_RD)  # nothing can be sent any more
            while (message := self._left_unread()) is not None:
                if message.fd >= 0:
                    posix.close(message.fd)
                if message.kind != MESSAGE_INIT_PID:
                    continue
                try:
                    self.became(message)
                except RuntimeFailure:
                    continue  # sent by another process; the executor's own message may follow
                self._end()
        self.reap()
        self.close()

    def _left_unread(self) -> Message | None:
        try:
            # If it exits without reading our GO, the kernel reports ECONNRESET once, and only then
            # delivers its queued messages.
            return receive(self.channel) or receive(self.channel)
        except HostError:
            return None  # the first error is the one to raise

    def _end(self) -> None:
        """Kill the process and wait until it has exited; it is not reaped."""
        try:
            _signal.pidfd_send_signal(self.pidfd, _signal.SIGKILL)
        except OSError:
            return  # reaped before
        poller = poll()
        poller.register(self.pidfd, POLLIN)
        poller.poll(REAP_MILLISECONDS)

    def close(self) -> None:
        """Close the descriptors."""
        self.channel.close()
        posix.close(self.pidfd)

    def kill(self) -> None:
        """Kill the process and wait for its exit."""
        self._end()
        self.reap()


def spawn(
    plan: Plan,
    init_fd: int,
    cgroup_fd: int,
    times_fd: int = -1,
    streams: tuple[int, int, int] = OWN_STREAMS,
) -> Executor:
    """Start the executor on ``plan``, in the v2 cgroup ``cgroup_fd`` (-1: where we are).

    ``init_fd`` is the start gate of a new init, or a pidfd of the init to join; ``streams`` become
    its descriptors 0, 1 and 2.  In the file ``times_fd`` (-1: none), it records when it began
    (nanoseconds of CLOCK_REALTIME), and when each operation began.  Raises HostError.
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
                },
            )
        finally:
            posix.close(plan_fd)
    finally:
        posix.close(executor_fd)


def _start(plan: Plan, settings: dict[str, object]) -> Executor:
    from ociruntime._shim import ffi, lib

    ours, theirs = _pair()
    request = ffi.new("struct oci_spawn *", {**settings, "sync_fd": theirs.fileno()})
    result = lib.oci_spawn(request)
    theirs.close()
    if result < 0:
        ours.close()
        raise _refused(-result, ffi.string(request.failed).decode())
    return Executor(plan, request.pid, request.pidfd, ours)


def _pair() -> tuple[_socket.socket, _socket.socket]:
    """Return (our end, the executor's end); on ours the kernel reports each message's sender."""
    try:
        ours, theirs = _socket.socketpair(
            _socket.AF_UNIX, _socket.SOCK_SEQPACKET | _socket.SOCK_CLOEXEC
        )
        ours.setsockopt(SOL_SOCKET, SO_PASSCRED, 1)
    except OSError as error:
        raise HostError("create a socket pair", error) from None
    return ours, theirs


REFUSALS: dict[int, str] = {
    1: 'new namespaces need root, or {"type": "user"} in linux.namespaces with mappings of ids:'
    " ociruntime spec --rootless writes such a configuration",
    11: "a limit on processes is reached: pids.max of the cgroup, or RLIMIT_NPROC",
    16: "the cgroup cannot take processes: it has controllers enabled for its children",
    22: "the kernel does not support one of the namespaces in linux.namespaces",
    28: "a limit on namespaces is reached: /proc/sys/user/max_*_namespaces",
    38: "the kernel is older than 5.7, or a seccomp filter around us forbids clone3",
}


def _refused(errno: int, call: str) -> HostError:
    error = OSError(errno, posix.strerror(errno))
    return HostError(f"start the container's init: {call}", error, REFUSALS.get(errno, ""))


def plan_file(plan: bytes) -> int:
    """Return the descriptor of a memory file that holds ``plan``.  Raises HostError."""
    try:
        fd = posix.memfd_create("plan", MFD_CLOEXEC)
        try:
            if posix.write(fd, plan) != len(plan):
                raise InternalError("the plan was written incompletely")
        except BaseException:
            posix.close(fd)
            raise
    except OSError as error:
        raise HostError("write the plan to memory", error) from None
    return fd
