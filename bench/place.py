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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from tests.support import cgroupfs, isolation, processes, static_program

REPOSITORY = Path(__file__).resolve().parent.parent
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENVIRONMENT = {"PATH": PATH}
# The prefix of the names of containers and cgroups, unique for concurrent benchmarks.
NAME = f"bench{os.getpid()}"
SPAWNER = Path(__file__).with_name("spawner.c")
DESCRIPTORS = 65536
_COST = struct.Struct("=6q")  # struct cost
_libc = ctypes.CDLL(None, use_errno=True)


class Failed(Exception):
    """A command or a precondition of a benchmark failed."""


def find_program(name: str) -> str:
    """Return the path of an installed program; else print a note and return ""."""
    path = shutil.which(name, path=f"{PATH}:{os.environ.get('PATH', '')}") or ""
    if not path:
        print(f"skipping {name}: not installed", file=sys.stderr)
    return path


class Namespace:
    """A mount namespace that this process can enter temporarily."""

    def __init__(self) -> None:
        """Refer to the current mount namespace."""
        self._fd = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Enter the namespace; afterwards return to the previous one, with / as directory."""
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
    """Create a namespace with an empty /run, and so with its own interpreter snapshot."""
    with Namespace().entered():
        _unshare()
        isolation.mount("tmpfs", "/run", "tmpfs", data="mode=755")
        return Namespace()


def _unshare() -> None:
    if _libc.unshare(isolation.CLONE_NEWNS) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"create a mount namespace: {os.strerror(error)}")
    isolation.mount("none", "/", "", isolation.MS_REC | isolation.MS_PRIVATE)


@dataclass(frozen=True)
class Cost:
    """The cost of a command: times in milliseconds, page faults, and peak ``memory`` in KiB."""

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
    """A running spawner (spawner.c), the program that starts and measures commands.

    ``output`` is the file for their output; they run in ``namespace`` with the environment ``env``.
    """

    def __init__(
        self,
        program: Path,
        output: Path,
        namespace: Namespace | None = None,
        env: Mapping[str, str] = ENVIRONMENT,
    ) -> None:
        self.output = output
        output.touch()
        with namespace.entered() if namespace else nullcontext():
            self._process = subprocess.Popen(
                [program, output],
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )

    def __call__(self, *words: str | Path) -> Cost:
        """Run one command to its end; raises Failed unless its status is 0."""
        (cost,) = self.all([[str(word) for word in words]])
        if cost.status != 0:
            command = " ".join(map(str, words))
            raise Failed(f"{command}: exit status {cost.status}: {self.last_output()}")
        return cost

    def all(self, commands: Sequence[Sequence[str]]) -> list[Cost]:
        """Start all commands at once and wait for them; their statuses are not checked."""
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
            raise Failed(f"the spawner exited with status {self._process.wait()}")
        return [
            Cost(status, began / 1e6, ended / 1e6, cpu / 1e3, faults, memory)
            for status, began, ended, cpu, faults, memory in _COST.iter_unpack(answer)
        ]

    def last_output(self) -> str:
        """Return the end of the output of the last commands."""
        return self.output.read_text(errors="replace")[-2000:]

    def close(self) -> None:
        """End the spawner."""
        self._process.communicate()


def build_spawner(directory: Path) -> Path:
    """Compile the spawner; return its path in ``directory``."""
    return static_program.build(directory / "spawner", SPAWNER)


@contextmanager
def workplace(*, with_crun: bool = False) -> Iterator[Path]:
    """Move to a new mount namespace, become a subreaper, and yield a temporary directory.

    At the end all containers are removed. ``with_crun``: mount what crun requires.
    """
    if os.geteuid() != 0:
        sys.exit("bench: needs root")
    _unshare()
    isolation.mount("tmpfs", "/run", "tmpfs", data="mode=755")
    isolation.adopt_orphans()
    _raise_descriptors()
    with ExitStack() as stack:
        if with_crun:
            try:
                stack.enter_context(cgroupfs.hugetlb_as_v1())
            except OSError as error:
                hint = "remove the cgroups below /sys/fs/cgroup/unified"
                sys.exit(f"bench: mount the hugetlb controller for crun: {error} ({hint})")
        stack.callback(_remove_containers)
        with tempfile.TemporaryDirectory(prefix="ociruntime-bench-", dir="/var/tmp") as place:
            yield Path(place)


def _remove_containers() -> None:
    """Kill all descendants and remove their cgroups, which a failed benchmark leaves behind."""
    processes.end(processes.descendants())
    processes.reap_orphans()
    cgroupfs.remove(cgroupfs.named(NAME))


def _raise_descriptors() -> None:
    """Raise the limit of descriptors, as engines do; some runtimes keep one for each mount."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, DESCRIPTORS), hard))


def await_child(pid: int) -> float:
    """Reap a child (or adopted orphan); return its CPU time in milliseconds."""
    _, _, usage = os.wait4(pid, 0)
    return (usage.ru_utime + usage.ru_stime) * 1e3
