"""The environment of a benchmark: its directory, mount namespaces, and command execution."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support import cgroupfs, isolation, processes, static_program

REPOSITORY = Path(__file__).resolve().parent.parent
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENVIRONMENT = {"PATH": PATH}
# The name of containers and their cgroups; other benchmarks use other names.
NAME = f"bench{os.getpid()}"
SPAWNER = Path(__file__).with_name("spawner.c")
DESCRIPTORS = 65536
_COST = struct.Struct("=6q")  # struct cost
_libc = ctypes.CDLL(None, use_errno=True)


class Failed(Exception):
    """A command that has to work did not."""


def find_program(name: str) -> str:
    """Return the path of an installed program, "" and a line on standard error without one."""
    found = shutil.which(name, path=f"{PATH}:{os.environ.get('PATH', '')}") or ""
    if not found:
        print(f"not installed, left out: {name}", file=sys.stderr)
    return found


class Namespace:
    """A mount namespace, entered for a while."""

    def __init__(self) -> None:
        """Be the present one."""
        self._fd = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Be in it; the working directory is / afterwards."""
        back = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _set_namespace(self._fd)
            yield
        finally:
            _set_namespace(back)
            os.close(back)


def _set_namespace(fd: int) -> None:
    if _libc.setns(fd, isolation.CLONE_NEWNS) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"enter a mount namespace: {os.strerror(error)}")


def own_namespace() -> Namespace:
    """Make a namespace with an empty /run, where the interpreter's snapshot is our own."""
    with Namespace().entered():
        _unshare()
        isolation.mount("tmpfs", "/run", "tmpfs", data="mode=755")
        return Namespace()


def _unshare() -> None:
    if _libc.unshare(isolation.CLONE_NEWNS) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"make a mount namespace: {os.strerror(error)}")
    isolation.mount("none", "/", "", isolation.MS_REC | isolation.MS_PRIVATE)


@dataclass(frozen=True)
class Cost:
    """The cost of a command: ``wall`` and ``cpu`` in milliseconds, ``memory`` in KiB."""

    status: int
    began: float
    ended: float
    cpu: float
    faults: int
    memory: int

    @property
    def wall(self) -> float:
        return self.ended - self.began


class Spawner:
    """The small program that starts commands and measures them, in a namespace."""

    def __init__(self, program: Path, output: Path, namespace: Namespace | None = None) -> None:
        self.output = output
        output.touch()
        with namespace.entered() if namespace else nullcontext():
            self._process = subprocess.Popen(
                [program, output],
                env=ENVIRONMENT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )

    def __call__(self, *words: str | Path) -> Cost:
        """Run one command to its end; raises Failed unless its status is 0."""
        (cost,) = self.all([[str(word) for word in words]])
        if cost.status != 0:
            raise Failed(f"{' '.join(map(str, words))}: status {cost.status}: {self.said()}")
        return cost

    def all(self, commands: Sequence[Sequence[str]]) -> list[Cost]:
        """Start them all at once and wait for them; their statuses are the caller's business."""
        os.truncate(self.output, 0)
        blocks = [b"".join(word.encode() + b"\0" for word in words) for words in commands]
        request = struct.pack("=I", len(blocks))
        request += b"".join(struct.pack("=I", len(block)) + block for block in blocks)
        sender, receiver = self._process.stdin, self._process.stdout
        assert sender is not None
        assert receiver is not None
        sender.write(request)
        sender.flush()
        answer = receiver.read(_COST.size * len(blocks))
        if len(answer) != _COST.size * len(blocks):
            raise Failed(f"the spawner ended: status {self._process.wait()}")
        return [
            Cost(status, began / 1e6, ended / 1e6, cpu / 1e3, faults, memory)
            for status, began, ended, cpu, faults, memory in _COST.iter_unpack(answer)
        ]

    def said(self) -> str:
        """Return the output of the last commands."""
        return self.output.read_text(errors="replace")[-2000:]

    def close(self) -> None:
        """End it."""
        self._process.communicate()


def build_spawner(place: Path) -> Path:
    """Compile it into ``place``."""
    return static_program.build(place / "spawner", SPAWNER)


@contextmanager
def workplace(*, with_crun: bool = False) -> Iterator[Path]:
    """A directory, in an own mount namespace; orphans come to this process."""
    if os.geteuid() != 0:
        sys.exit("needs root")
    _unshare()
    isolation.mount("tmpfs", "/run", "tmpfs", data="mode=755")
    isolation.adopt_orphans()
    _raise_descriptors()
    hugetlb = _hugetlb_as_v1() if with_crun else None
    try:
        with tempfile.TemporaryDirectory(prefix="ociruntime-bench-", dir="/var/tmp") as place:
            yield Path(place)
    finally:
        _remove_containers()
        if hugetlb is not None:
            isolation.unmount(str(hugetlb))
            # A namespace of a runtime's may still have it mounted there.
            with suppress(OSError):
                hugetlb.rmdir()


def _remove_containers() -> None:
    """End all that was started here: a failure leaves containers behind."""
    processes.end(processes.descendants())
    processes.reap_orphans()
    cgroupfs.remove(cgroupfs.named(NAME))


def _raise_descriptors() -> None:
    """Allow as many descriptors as engines do: a thousand mounts are as many for some."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, DESCRIPTORS), hard))


def _hugetlb_as_v1() -> Path | None:
    """Mount hugetlb as a v1 hierarchy if crun would refuse to work without; return where.

    On cgroup v1 beside a v2 hierarchy crun insists on it. The directory alone means nothing: a
    peer may have made it, in search of the hierarchy.
    """
    path = Path("/sys/fs/cgroup/hugetlb")
    if path.is_mount() or not Path("/sys/fs/cgroup/unified").is_mount():
        return None
    path.mkdir(exist_ok=True)
    try:
        isolation.mount("cgroup", str(path), "cgroup", data="hugetlb")
    except OSError as error:
        path.rmdir()
        sys.exit(f"cannot give crun a v1 hierarchy: {error} (remove the cgroups below unified/)")
    return path


def await_child(pid: int) -> float:
    """Wait for an adopted process; return the milliseconds of CPU time that it has had."""
    _, _, usage = os.wait4(pid, 0)
    return (usage.ru_utime + usage.ru_stime) * 1e3
