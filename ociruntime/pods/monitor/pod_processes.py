"""Start and watch a pod's two helper processes: its init, and the holder of its lock.

Both execute csrc/pod_init from a sealed copy in memory: an app that opens /proc/1/exe must not be
able to overwrite the program.  The lock holder inherits the lock's descriptor, and exits when the
last process in the init's PID namespace has exited.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable

from ociruntime.base.errors import HostError, PodError
from ociruntime.base.linux import SIGKILL
from ociruntime.base.process import close_inherited_on_exec, start_time
from ociruntime.base.sealed_program import sealed_program
from ociruntime.pods.loop.event_loop import Loop

PROGRAM = __file__.rpartition("/")[0] + "/_pod_init"

# Flags of clone(2) by the namespace types of the OCI runtime specification.
KINDS = {
    "mount": 0x00020000,
    "uts": 0x04000000,
    "ipc": 0x08000000,
    "user": 0x10000000,
    "pid": 0x20000000,
    "network": 0x40000000,
}
READY = b"ready\n"  # what the init reports when it is set up; otherwise "CALL ERRNO"
NAMES = {"network": "net", "mount": "mnt"}  # types that have another name in /proc/PID/ns


class PodProcesses:
    """The init of a pod and the process that holds the pod's lock, both children of the monitor.

    ``pid`` is the init's pid, 0 before its start and after its exit.  ``on_init_exit`` is called
    when the init has exited, ``on_end`` when both processes have exited.
    """

    DESCRIPTORS = ("alive", "control", "pidfd")  # members of a snapshot that are descriptors

    __slots__ = (
        *("_alive", "_cgroups", "_control", "_lock_holder", "_lock", "_loop", "_pidfd"),
        *("on_end", "on_init_exit", "pid"),
    )

    def __init__(self, loop: Loop, lock: int, cgroups: list[str]) -> None:
        """Prepare to start the pod's init and its lock holder.

        ``lock`` is the descriptor that holds the pod's lock.  When the pod ends, the lock holder
        kills the processes that remain in the pod's cgroups, the directories ``cgroups``.
        """
        self._loop = loop
        self._lock = lock
        self._cgroups = cgroups
        self._control = -1  # write end of a pipe: it closes when the monitor exits
        self._alive = -1  # read end of that pipe, for lock holders started later
        self._pidfd = -1
        self._lock_holder = 0
        self.on_end: Callable[[], None] = _nothing
        self.on_init_exit: Callable[[], None] = _nothing
        self.pid = 0

    def start(self, kinds: tuple[str, ...], hostname: str, id_map: str) -> None:
        """Start the pod's lock holder, and its init in new namespaces.

        ``kinds`` are the OCI types of the namespaces.  ``id_map`` is the content of uid_map and
        gid_map, or "" if ``kinds`` does not contain "user".  Raises HostError if a system call
        fails, PodError if the init exits before it is ready.
        """
        try:
            self._start(kinds, hostname, id_map)
        except OSError as error:
            raise HostError("start the pod's init", error) from None

    def _start(self, kinds: tuple[str, ...], hostname: str, id_map: str) -> None:
        flags = 0
        for kind in kinds:
            flags |= KINDS[kind]
        self._alive, self._control = os.pipe2(os.O_CLOEXEC)
        report, report_end = os.pipe2(os.O_CLOEXEC)
        descriptors = (self._lock, self._alive, report_end)
        numbers = [str(number) for number in (*descriptors, flags)]
        try:
            self._spawn(["pod", *numbers, hostname, *self._cgroups], descriptors)
        finally:
            os.close(report_end)
        try:
            self._finish_start(report, id_map)
        finally:
            os.close(report)

    @property
    def pids(self) -> set[int]:
        """Return the pids of the init and of the lock holder, if they are running."""
        return {self.pid, self._lock_holder} - {0}

    def snapshot(self) -> dict[str, int]:
        """Return the pids and descriptors by name, for the monitor's hibernation.

        Call it only while the init and the lock holder are running.
        """
        pids = {"pid": self.pid, "lock_holder": self._lock_holder}
        return {**pids, "control": self._control, "alive": self._alive, "pidfd": self._pidfd}

    def restore(self, snapshot: dict[str, int]) -> None:
        """Take over the processes in ``snapshot``, which were started before the hibernation."""
        self.pid, self._lock_holder = snapshot["pid"], snapshot["lock_holder"]
        self._control, self._alive = snapshot["control"], snapshot["alive"]
        self._pidfd = snapshot["pidfd"]
        self._loop.expect(self.pid, self._init_ended)
        self._loop.expect(self._lock_holder, self._lock_holder_ended)

    def _finish_start(self, report: int, id_map: str) -> None:
        """Read the init's pid from the pipe ``report``, write its ID maps, and let it continue.

        Raises PodError if the init exits before it is ready, HostError if a system call of the init
        fails.
        """
        pid = self._read_pid(report)
        if not pid:
            raise PodError(
                "create the pod's namespaces: clone(2) failed",
                "dmesg may show why; ulimit -u shows the limit on processes",
            )
        self.pid = pid
        self._loop.expect(pid, self._init_ended)
        self._pidfd = os.pidfd_open(pid)
        if id_map:
            self._map_ids(id_map)
        os.write(self._control, b"g")
        outcome = b""
        while part := os.read(report, 4096):
            outcome += part
        if not outcome:
            raise PodError("start the pod's init: it was killed")
        if outcome != READY:
            raise _failed_call(outcome)

    def _read_pid(self, report: int) -> int:
        """Return the init's pid, which the lock holder writes to the pipe ``report``.

        Also watches whether the lock holder exits.  The end of file on the pipe does not show this,
        because the init, which is waiting for the monitor, holds the write end, too.  Raises
        PodError if the lock holder exits before it has written the pid.  Raises HostError if a
        system call of the init fails: the init may report this before the pid arrives.
        """
        line = b""
        holder = os.pidfd_open(self._lock_holder)
        try:
            events = select.poll()
            for fd in (report, holder):
                events.register(fd, select.POLLIN)
            while not line.endswith(b"\n"):
                readable = {fd for fd, _ in events.poll()}
                byte = os.read(report, 1) if report in readable else b""
                if not byte:
                    raise PodError("start the pod's init: it exited before it reported its pid")
                line += byte
        finally:
            os.close(holder)
        if not line.strip().isdigit():
            raise _failed_call(line)
        return int(line)

    def _map_ids(self, id_map: str) -> None:
        for name in ("uid_map", "gid_map"):
            try:
                fd = os.open(f"/proc/{self.pid}/{name}", os.O_WRONLY | os.O_CLOEXEC)
                try:
                    os.write(fd, id_map.encode())
                finally:
                    os.close(fd)
            except OSError as error:
                raise HostError(
                    f'write "/proc/{self.pid}/{name}" of the pod\'s init', error
                ) from None

    def _spawn(self, arguments: list[str], descriptors: tuple[int, ...]) -> None:
        """Start the lock holder with ``arguments``.

        It inherits only ``descriptors``, with the same numbers, and /dev/null as its standard
        streams.  Raises HostError if its program cannot be executed.
        """
        close_inherited_on_exec()
        program = sealed_program(PROGRAM)
        actions: list[tuple[int, ...] | tuple[int, int, str, int, int]] = [
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDWR, 0),
            (os.POSIX_SPAWN_DUP2, 0, 1),
            (os.POSIX_SPAWN_DUP2, 0, 2),
            *((os.POSIX_SPAWN_DUP2, fd, fd) for fd in descriptors),
        ]
        try:
            self._lock_holder = os.posix_spawn(
                f"/proc/self/fd/{program}", ["ocipod-lock", *arguments], {}, file_actions=actions
            )
        except OSError as error:
            raise HostError(f'start "{PROGRAM}"', error) from None
        finally:
            os.close(program)
        self._loop.expect(self._lock_holder, self._lock_holder_ended)

    def namespaces(self, kinds: tuple[str, ...]) -> dict[str, str]:
        """Return {OCI type: path in /proc} of the init's namespaces of the given ``kinds``."""
        return {kind: f"/proc/{self.pid}/ns/{NAMES.get(kind, kind)}" for kind in kinds}

    def started(self) -> int:
        """Return the time when the init was started, in clock ticks since boot."""
        return start_time(self.pid)

    @property
    def is_over(self) -> bool:
        """Return whether the pod's init and lock holder have both exited, or were not started."""
        return not self.pid and not self._lock_holder

    def end(self) -> None:
        """Kill the init; the kernel then kills all processes in its PID namespace.

        If the init has not reported its pid yet, close the pipe to it, so that it exits.
        """
        if self.pid:
            os.kill(self.pid, SIGKILL)
        elif self._control >= 0:
            os.close(self._control)
            self._control = -1

    def _init_ended(self, status: int) -> None:
        del status
        self.pid = 0
        for fd in (self._control, self._alive, self._pidfd):
            if fd >= 0:
                os.close(fd)
        self._control = self._alive = self._pidfd = -1
        self.on_init_exit()
        if not self._lock_holder:
            self.on_end()

    def _lock_holder_ended(self, status: int) -> None:
        del status
        self._lock_holder = 0
        if self.pid:  # the lock holder was killed: start another
            descriptors = (self._lock, self._pidfd, self._alive)
            self._spawn(["keep", *(str(fd) for fd in descriptors), *self._cgroups], descriptors)
        else:
            self.on_end()


def _nothing() -> None:
    pass


def _failed_call(report: bytes) -> HostError:
    """Return the error for ``report``, the init's line "CALL ERRNO" about a failed system call."""
    call, _, number = report.decode().strip().rpartition(" ")
    return HostError(f"start the pod's init: {call}", _os_error(int(number)))


def _os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
