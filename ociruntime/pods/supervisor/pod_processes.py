"""The two small processes of a pod: its process 1, and the keeper of its lock.

csrc/init is their program.  As long as process 1 or any process of its pid namespace lives, the
keeper lives, and with it a copy of the lock's descriptor.
"""

from __future__ import annotations

import posix

from ociruntime.base.errors import HostError, PodError
from ociruntime.base.process import start_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ociruntime.pods.loop.loop import Loop

PROGRAM = __file__.rpartition("/")[0] + "/_init"
SIGKILL = 9

# clone(2)'s flags by the runtime specification's names.
KINDS = {
    "mount": 0x00020000,
    "uts": 0x04000000,
    "ipc": 0x08000000,
    "user": 0x10000000,
    "pid": 0x20000000,
    "network": 0x40000000,
}
NAMES = {"network": "net", "mount": "mnt"}  # where /proc/PID/ns has others


class PodProcesses:
    """``pid`` is that of process 1, 0 when it has ended; both are children of this process."""

    DESCRIPTORS = ("alive", "control", "pidfd")  # among what ``frozen`` tells

    __slots__ = (
        *("_alive", "_cgroups", "_control", "_keeper", "_lock", "_loop", "_pidfd"),
        *("on_end", "on_loss", "pid"),
    )

    def __init__(self, loop: Loop, lock: int, cgroups: list[str]) -> None:
        """``lock``: the descriptor that locks; ``cgroups``: directories the keeper empties."""
        self._loop = loop
        self._lock = lock
        self._cgroups = cgroups
        self._control = -1  # our end of a pipe that ends with us
        self._alive = -1  # its other end, for keepers to come
        self._pidfd = -1
        self._keeper = 0
        self.on_end: Callable[[], None] = _nothing  # when both have ended
        self.on_loss: Callable[[], None] = _nothing  # when process 1 has ended
        self.pid = 0

    def start(self, kinds: tuple[str, ...], hostname: str, id_map: str) -> None:
        """Make process 1 with new namespaces of ``kinds``.

        ``id_map``: what is written to uid_map and gid_map when "user" is among them.
        Raises HostError, PodError.
        """
        self._alive, self._control = posix.pipe2(posix.O_CLOEXEC)
        report, told = posix.pipe2(posix.O_CLOEXEC)
        flags = 0
        for kind in kinds:
            flags |= KINDS[kind]
        given = (self._lock, self._alive, told)
        words = [str(number) for number in (*given, flags)]
        try:
            self._spawn(["pod", *words, hostname, *self._cgroups], given)
        finally:
            posix.close(told)
        try:
            self._begin(report, id_map)
        finally:
            posix.close(report)

    @property
    def pids(self) -> set[int]:
        """Of those that run."""
        return {self.pid, self._keeper} - {0}

    def frozen(self) -> dict[str, int]:
        """While both run: what ``take_up`` needs."""
        pids = {"pid": self.pid, "keeper": self._keeper}
        return {**pids, "control": self._control, "alive": self._alive, "pidfd": self._pidfd}

    def take_up(self, frozen: dict[str, int]) -> None:
        """Go on with those that run, instead of ``start``."""
        self.pid, self._keeper = frozen["pid"], frozen["keeper"]
        self._control, self._alive = frozen["control"], frozen["alive"]
        self._pidfd = frozen["pidfd"]
        self._loop.expect(self.pid, self._init_ended)
        self._loop.expect(self._keeper, self._keeper_ended)

    def _begin(self, report: int, id_map: str) -> None:
        line = b""
        while not line.endswith(b"\n"):
            byte = posix.read(report, 1)
            if not byte:
                raise PodError("the pod's first process could not be started")
            line += byte
        pid = int(line)
        if not pid:
            raise PodError("the pod's namespaces could not be made", "see dmesg and ulimit -u")
        self.pid = pid
        self._loop.expect(pid, self._init_ended)
        self._pidfd = posix.pidfd_open(pid)
        if id_map:
            self._map_ids(id_map)
        posix.write(self._control, b"g")
        said = b""
        while part := posix.read(report, 4096):
            said += part
        if said:
            call, _, number = said.decode().strip().rpartition(" ")
            raise HostError(f"the pod's first process: {call}", _os_error(int(number)))

    def _map_ids(self, id_map: str) -> None:
        for name in ("uid_map", "gid_map"):
            try:
                fd = posix.open(f"/proc/{self.pid}/{name}", posix.O_WRONLY | posix.O_CLOEXEC)
                try:
                    posix.write(fd, id_map.encode())
                finally:
                    posix.close(fd)
            except OSError as error:
                raise HostError(f"write the pod's {name}", error) from None

    def _spawn(self, words: list[str], descriptors: tuple[int, ...]) -> None:
        """Start the program as the keeper; ``descriptors`` keep their numbers in it."""
        actions: list[tuple[int, ...] | tuple[int, int, str, int, int]] = [
            (posix.POSIX_SPAWN_OPEN, 0, "/dev/null", posix.O_RDWR, 0),
            (posix.POSIX_SPAWN_DUP2, 0, 1),
            (posix.POSIX_SPAWN_DUP2, 0, 2),
            *((posix.POSIX_SPAWN_DUP2, fd, fd) for fd in descriptors),
        ]
        try:
            self._keeper = posix.posix_spawn(
                PROGRAM, ["ocipod-keeper", *words], {}, file_actions=actions
            )
        except OSError as error:
            raise HostError(f"start {PROGRAM}", error) from None
        self._loop.expect(self._keeper, self._keeper_ended)

    def namespaces(self, kinds: tuple[str, ...]) -> dict[str, str]:
        """Where the namespaces of ``kinds`` can be opened, by the specification's names."""
        return {kind: f"/proc/{self.pid}/ns/{NAMES.get(kind, kind)}" for kind in kinds}

    def started(self) -> int:
        """When process 1 started, in ticks since boot."""
        return start_time(self.pid)

    @property
    def is_over(self) -> bool:
        """Whether neither of the two runs (any more)."""
        return not self.pid and not self._keeper

    def end(self) -> None:
        """Kill process 1, and with it all of its pid namespace."""
        if self.pid:
            posix.kill(self.pid, SIGKILL)

    def _init_ended(self, status: int) -> None:
        del status
        self.pid = 0
        for fd in (self._control, self._alive, self._pidfd):
            posix.close(fd)
        self.on_loss()
        if not self._keeper:
            self.on_end()

    def _keeper_ended(self, status: int) -> None:
        del status
        self._keeper = 0
        if self.pid:  # it was killed: another one takes its place
            given = (self._lock, self._pidfd, self._alive)
            self._spawn(["keep", *(str(fd) for fd in given), *self._cgroups], given)
        else:
            self.on_end()


def _nothing() -> None:
    pass


def _os_error(number: int) -> OSError:
    return OSError(number, posix.strerror(number))
