"""A pod's two helper processes: its init, and the holder of its lock.

Both run csrc/init, from a sealed copy in memory, since apps can reach it as /proc/1/exe.  The lock
holder has a copy of the lock's descriptor, and lives as long as any process of the init's PID
namespace.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from ociruntime.base.errors import HostError, PodError
from ociruntime.base.linux import SIGKILL
from ociruntime.base.process import close_inherited_on_exec, start_time
from ociruntime.base.sealed_program import sealed_program
from ociruntime.pods.loop.event_loop import Loop

PROGRAM = __file__.rpartition("/")[0] + "/_init"

# clone(2)'s flags by the runtime specification's names.
KINDS = {
    "mount": 0x00020000,
    "uts": 0x04000000,
    "ipc": 0x08000000,
    "user": 0x10000000,
    "pid": 0x20000000,
    "network": 0x40000000,
}
NAMES = {"network": "net", "mount": "mnt"}  # names in /proc/PID/ns that differ


class PodProcesses:
    """``pid`` is the init's, 0 after its exit; both processes are our children."""

    DESCRIPTORS = ("alive", "control", "pidfd")  # members of a snapshot that are descriptors

    __slots__ = (
        *("_alive", "_cgroups", "_control", "_lock_holder", "_lock", "_loop", "_pidfd"),
        *("on_end", "on_loss", "pid"),
    )

    def __init__(self, loop: Loop, lock: int, cgroups: list[str]) -> None:
        """Take the locking descriptor, and the cgroups that the lock holder will empty."""
        self._loop = loop
        self._lock = lock
        self._cgroups = cgroups
        self._control = -1  # our end of a pipe, whose closing shows that we have ended
        self._alive = -1  # its other end, for lock holders started later
        self._pidfd = -1
        self._lock_holder = 0
        self.on_end: Callable[[], None] = _nothing  # called when both have exited
        self.on_loss: Callable[[], None] = _nothing  # called when the init has exited
        self.pid = 0

    def start(self, kinds: tuple[str, ...], hostname: str, id_map: str) -> None:
        """Start the init with new namespaces of ``kinds``.

        ``id_map`` is the content of uid_map and gid_map for a "user" namespace.  Raises HostError,
        PodError.
        """
        self._alive, self._control = os.pipe2(os.O_CLOEXEC)
        report, told = os.pipe2(os.O_CLOEXEC)
        flags = 0
        for kind in kinds:
            flags |= KINDS[kind]
        given = (self._lock, self._alive, told)
        words = [str(number) for number in (*given, flags)]
        try:
            self._spawn(["pod", *words, hostname, *self._cgroups], given)
        finally:
            os.close(told)
        try:
            self._begin(report, id_map)
        finally:
            os.close(report)

    @property
    def pids(self) -> set[int]:
        """Return the pids of those that are running."""
        return {self.pid, self._lock_holder} - {0}

    def snapshot(self) -> dict[str, int]:
        """Return a snapshot; only valid while both are running."""
        pids = {"pid": self.pid, "lock_holder": self._lock_holder}
        return {**pids, "control": self._control, "alive": self._alive, "pidfd": self._pidfd}

    def restore(self, snapshot: dict[str, int]) -> None:
        """Restore from a snapshot, instead of ``start``."""
        self.pid, self._lock_holder = snapshot["pid"], snapshot["lock_holder"]
        self._control, self._alive = snapshot["control"], snapshot["alive"]
        self._pidfd = snapshot["pidfd"]
        self._loop.expect(self.pid, self._init_ended)
        self._loop.expect(self._lock_holder, self._lock_holder_ended)

    def _begin(self, report: int, id_map: str) -> None:
        line = b""
        while not line.endswith(b"\n"):
            byte = os.read(report, 1)
            if not byte:
                raise PodError("start the pod's init: it exited without a report")
            line += byte
        pid = int(line)
        if not pid:
            raise PodError("create the pod's namespaces: not possible", "see dmesg and ulimit -u")
        self.pid = pid
        self._loop.expect(pid, self._init_ended)
        self._pidfd = os.pidfd_open(pid)
        if id_map:
            self._map_ids(id_map)
        os.write(self._control, b"g")
        said = b""
        while part := os.read(report, 4096):
            said += part
        if said:
            call, _, number = said.decode().strip().rpartition(" ")
            raise HostError(f"start the pod's init: {call}", _os_error(int(number)))

    def _map_ids(self, id_map: str) -> None:
        for name in ("uid_map", "gid_map"):
            try:
                fd = os.open(f"/proc/{self.pid}/{name}", os.O_WRONLY | os.O_CLOEXEC)
                try:
                    os.write(fd, id_map.encode())
                finally:
                    os.close(fd)
            except OSError as error:
                raise HostError(f"write the pod's {name}", error) from None

    def _spawn(self, words: list[str], descriptors: tuple[int, ...]) -> None:
        """Start the program as the lock holder; ``descriptors`` keep their numbers in it.

        It gets no other descriptor that this process has inherited.
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
                f"/proc/self/fd/{program}", ["ocipod-lock", *words], {}, file_actions=actions
            )
        except OSError as error:
            raise HostError(f"start {PROGRAM}", error) from None
        finally:
            os.close(program)
        self._loop.expect(self._lock_holder, self._lock_holder_ended)

    def namespaces(self, kinds: tuple[str, ...]) -> dict[str, str]:
        """Map each of ``kinds``, with the specification's names, to the init's namespace's path."""
        return {kind: f"/proc/{self.pid}/ns/{NAMES.get(kind, kind)}" for kind in kinds}

    def started(self) -> int:
        """Return the init's start time, in clock ticks since boot."""
        return start_time(self.pid)

    @property
    def is_over(self) -> bool:
        """Return whether neither process is running."""
        return not self.pid and not self._lock_holder

    def end(self) -> None:
        """Kill the init, and with it its whole PID namespace."""
        if self.pid:
            os.kill(self.pid, SIGKILL)

    def _init_ended(self, status: int) -> None:
        del status
        self.pid = 0
        for fd in (self._control, self._alive, self._pidfd):
            os.close(fd)
        self.on_loss()
        if not self._lock_holder:
            self.on_end()

    def _lock_holder_ended(self, status: int) -> None:
        del status
        self._lock_holder = 0
        if self.pid:  # the lock holder was killed: start another
            given = (self._lock, self._pidfd, self._alive)
            self._spawn(["keep", *(str(fd) for fd in given), *self._cgroups], given)
        else:
            self.on_end()


def _nothing() -> None:
    pass


def _os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
