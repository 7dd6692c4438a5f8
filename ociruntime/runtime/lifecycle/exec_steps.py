"""Start an additional process in a container, and run the protocol with its executor.

    exec                            executor (then the program)
      | ---- clone3, execveat ------->  |
      | <--- STAGE cgroup ------------  |  CPU affinity "initial" is set
      | ---- GO --------------------->  |  it is in the cgroup, or enters it now
      | <--- CONSOLE + master --------  |  only with a terminal
      | <--- INIT_PID ----------------  |  only if the container has its own pid namespace
      | <--- LISTENER + descriptor ---  |  only with SCMP_ACT_NOTIFY
      | ---- GO --------------------->  |  the agent has the listener
      | <--- EXEC --------------------  |
      | <--- end of file -------------  |  because execve closes the descriptor

The executor's parent process sends INIT_PID while its child goes on, so that message may arrive
after messages from the child.
"""

from __future__ import annotations

import errno
import posix
from select import POLLIN, poll

from ociruntime.base.errors import HostError, NotRunning, RuntimeFailure, StepError
from ociruntime.base.files import exists
from ociruntime.runtime.executor.protocol import (
    CLONE_PROCESS,
    Expected,
    check_listener,
    go,
    receive,
)
from ociruntime.runtime.executor.spawn import spawn
from ociruntime.runtime.lifecycle.container import RUNNING, document
from ociruntime.runtime.lifecycle.join_cgroup import attach, let_in, refuse_entry
from ociruntime.runtime.plan import operation_table as ops

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from socket import socket

    from ociruntime.base.foreground import SignalQueue
    from ociruntime.runtime.cgroups.cgroup import Cgroup
    from ociruntime.runtime.executor.protocol import Message
    from ociruntime.runtime.executor.spawn import Executor
    from ociruntime.runtime.lifecycle.container import Container
    from ociruntime.runtime.plan.plan import Plan
else:
    import _signal

EXEC_MILLISECONDS = 10_000
ENDING = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP)


class Execution:
    """The start of one process by `exec`: call ``run`` once.

    ``run`` sets ``executor``.  If the process has a terminal and there is no console socket,
    ``run`` sets ``master`` to the terminal's descriptor; otherwise ``master`` is -1.
    """

    __slots__ = (
        "_agent",
        "_beside",
        "_born",
        "_caught",
        "_cgroup",
        "_console",
        "_container",
        "_forks",
        "_listener",
        "_streams",
        "executor",
        "master",
    )

    def __init__(
        self,
        container: Container,
        cgroup: Cgroup,
        console: socket | None,
        beside: bool,
        streams: tuple[int, int, int],
        caught: SignalQueue | None,
    ) -> None:
        """Connect to the container's seccomp agent, if it has one.  Raises HostError."""
        self._container = container
        self._agent = container.seccomp_agent()
        self._listener = -1
        self._forks = False  # True: executor.pid forks the program and exits
        self._cgroup = cgroup
        self._console = console  # connection to the receiver of the terminal
        # If the container's cgroup no longer accepts processes, use the cgroup of its init.
        self._beside = container.pid if beside else 0
        self._born = False
        self._streams = streams
        self._caught = caught  # signals received before the program runs are forwarded to it
        self.master = -1
        self.executor: Executor

    def run(self, plan: Plan, init_fd: int, born: bool) -> None:
        """Start the program that ``plan`` executes; return as soon as it runs.

        ``init_fd``: a pidfd of the container's init.  ``born``: clone the process straight into the
        init's v2 cgroup, if it has one, instead of moving it there.  After an error, the process is
        killed.
        """
        self._forks = any(each.code == CLONE_PROCESS for each in plan.operations)
        self.executor = self._spawn(plan, init_fd, born)
        try:
            self._converse()
        except OSError as error:
            self.abandon()
            action = f'exec in container "{self._container.id}": wait for the program'
            raise HostError(action, error) from None
        except BaseException as failure:
            self.executor.explain(failure, self._container.facts["rootfs"])
            self.abandon()
            raise
        self.executor.channel.close()

    def _spawn(self, plan: Plan, init_fd: int, born: bool) -> Executor:
        cgroup_fd = self._cgroup.open_v2() if born else -1
        if cgroup_fd >= 0:
            try:
                executor = spawn(plan, init_fd, cgroup_fd, streams=self._streams)
                self._born = True
                return executor
            except HostError as error:
                # If clone3(2) into the cgroup fails, attach() may still be able to move the process
                # there, or to the init's cgroup.
                if error.errno != errno.EACCES and (error.errno != errno.EBUSY or not self._beside):
                    raise
            finally:
                posix.close(cgroup_fd)
        return spawn(plan, init_fd, -1, streams=self._streams)

    def _converse(self) -> None:
        """Answer the executor's messages until it has executed the program."""
        announced = False
        expected = Expected(self.executor.plan.operations)
        while (message := self._receive(announced)) is not None:
            expected.take(message)
            if message.kind == ops.MESSAGE_FAILURE:
                raise self._failed(message)
            if message.kind == ops.MESSAGE_EXEC:
                announced = True
            elif message.kind == ops.MESSAGE_INIT_PID:
                self.executor.became(message)
                self._forks = False
            elif message.kind == ops.MESSAGE_CONSOLE:
                self._take_console(message.fd)
            elif message.kind == ops.MESSAGE_STAGE:
                attach(self._cgroup, self.executor.pid, self._born, self._beside)
                if exists(f"{self._container.directory}/rdt.json"):
                    from ociruntime.runtime.lifecycle.intel_rdt_groups import follow

                    follow(self._container.directory, self.executor.pid)
                let_in(self.executor.channel, self._cgroup)
            elif message.kind == ops.MESSAGE_LISTENER:
                self._listener = message.fd
                check_listener(message)
            if self._listener >= 0 and not self._forks:
                self._tell_agent()
                go(self.executor.channel)
        # Without INIT_PID the program's pid is unknown: the EXEC may be forged.
        if not announced or self._forks:
            raise self._vanished()

    def _receive(self, announced: bool) -> Message | None:
        """Receive a message; return None if the program runs or the executor has exited.

        ``announced``: True if the message EXEC has already arrived.  If False, raises
        KeyboardInterrupt for a signal that would end the command.
        """
        caught = self._caught
        channel = self.executor.channel
        if announced:
            return receive(channel) if self._is_heard(channel) else None
        if caught is not None:
            poller = poll()
            poller.register(channel.fileno(), POLLIN)
            poller.register(self.executor.pidfd, POLLIN)
            poller.register(caught.fd, POLLIN)
            while [fd for fd, _ in poller.poll()] == [caught.fd]:
                caught.receive()
                if caught.has_any(ENDING):
                    raise KeyboardInterrupt
        return self.executor.receive()

    def _is_heard(self, channel: socket) -> bool:
        """Wait for a FAILURE message on ``channel``, or for its end of file after execve(2).

        Returns False on timeout, or if the process has exited.  The end of file may never arrive: a
        process that traces the new process may hold a duplicate of the new process's end of the
        channel.
        """
        poller = poll()
        poller.register(channel.fileno(), POLLIN)
        poller.register(self.executor.pidfd, POLLIN)
        return channel.fileno() in [fd for fd, _ in poller.poll(EXEC_MILLISECONDS)]

    def _tell_agent(self) -> None:
        """Send the seccomp listener to the agent before the program makes its first system call."""
        try:
            if self._agent is not None:
                state = document(self._container, RUNNING)
                self._agent.hand_on(self._listener, self.executor.pid, state)
        finally:
            posix.close(self._listener)
            self._listener = -1

    def _failed(self, message: Message) -> RuntimeFailure:
        """Return the error that a FAILURE message from the executor describes."""
        from ociruntime.runtime.executor.failure_messages import failure

        if not self._container.alive():
            return NotRunning(self._container.id)
        refuse_entry(self._cgroup, self.executor.pid, message)
        operations = self.executor.plan.operations
        known = message.value < len(operations)
        return failure(operations[message.value] if known else None, message)

    def _vanished(self) -> RuntimeFailure:
        """Return the error for an executor that exited without a message."""
        if not self._container.alive():
            return NotRunning(self._container.id)
        return StepError(
            f'exec in container "{self._container.id}": the process was killed before it executed'
            " the program",
            "linux.resources.memory.limit may be too low",
        )

    def _take_console(self, master: int) -> None:
        if self._console is None:
            self.master = master
            return
        from ociruntime.runtime.host.console_and_pidfd_sockets import send_terminal

        send_terminal(self._console, master)

    def abandon(self) -> None:
        """Kill the executor (or the program that it became) and its child; close the descriptors.

        Also kills a child whose pid has not been received yet.  Does nothing if no executor was
        started, or if this method was called before.
        """
        executor: Executor | None = getattr(self, "executor", None)
        if executor is None:
            return
        executor.discard()
        for fd in (self.master, self._listener):
            if fd >= 0:
                posix.close(fd)
        self.master = self._listener = -1
