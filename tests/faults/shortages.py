"""Resources that a command may lack: descriptors, processes, memory, space, a reliable clock."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from ociruntime.startup import snapshot
from tests.faults import small_pid_space
from tests.faults.confinement import FREE, Around, Confinement
from tests.faults.scenarios import Stage
from tests.support import cgroupfs, isolation

MS_RDONLY, MS_REMOUNT, MS_BIND = 1, 32, 4096
KIB, MIB = 1 << 10, 1 << 20
PAGE = os.sysconf("SC_PAGE_SIZE")
LARGE = "size=64m,mode=755"
YEARS = 20 * 365 * 86400


@contextlib.contextmanager
def _nothing(_stage: Stage) -> Iterator[None]:
    yield


@dataclass(frozen=True)
class Shortage:
    """One shortage: ``around`` applies to the command only, ``before`` to the whole case.

    The error contains one of ``words``.  ``kills``: the kernel may also kill the command.  The
    commands in ``harmless`` must succeed.  ``small_pid_space``: the case runs in a separate pid
    namespace.
    """

    name: str
    around: Around
    words: tuple[str, ...]
    before: Callable[[Stage], AbstractContextManager[None]] = _nothing
    kills: bool = False
    harmless: frozenset[str] = frozenset()
    small_pid_space: bool = False


# --- limits of a process ------------------------------------------------------------------


def _limited(kind: int, most: int) -> Around:
    @contextlib.contextmanager
    def around(_stage: Stage) -> Iterator[Confinement]:
        yield Confinement(enter=lambda: resource.setrlimit(kind, (most, most)))

    return around


def _descriptors(most: int) -> Shortage:
    words = ("too many open files", "no file descriptors available", "error 24")
    return Shortage(f"descriptors-{most}", _limited(resource.RLIMIT_NOFILE, most), words)


NO_MEMORY = ("cannot allocate memory", "out of memory", "oom", "not enough memory")


def _address_space(mebibytes: int) -> Shortage:
    around = _limited(resource.RLIMIT_AS, mebibytes * MIB)
    return Shortage(f"address-space-{mebibytes}m", around, NO_MEMORY)


# --- limits of a cgroup -------------------------------------------------------------------


def _in_cgroup(controller: str, file: str, most: int) -> Around:
    """Run the command in a separate cgroup, which is removed after the case."""

    @contextlib.contextmanager
    def around(stage: Stage) -> Iterator[Confinement]:
        place = cgroupfs.of_process("self")[controller] / f"{stage.id}-starved"
        place.mkdir()
        (place / file).write_text(str(most))
        try:
            yield Confinement(enter=lambda: _enter(place))
        finally:
            # A container that the command has started may be in it, or below.
            (place / file).write_text(str(PLENTY[controller]))
            _leave(place)

    return around


def _enter(place: Path) -> None:
    (place / "cgroup.procs").write_text("0")


PLENTY = {"pids": 1000, "memory": 1 << 30}


def _leave(place: Path) -> None:
    """Move a cgroup's processes to its parent, and remove it unless it contains a container."""
    for pid in (place / "cgroup.procs").read_text().split():
        with contextlib.suppress(ProcessLookupError):
            (place.parent / "cgroup.procs").write_text(pid)
    with contextlib.suppress(OSError):
        place.rmdir()


NO_PROCESS = ("resource temporarily unavailable", "try again", "number of processes", "can't fork")


def _processes(most: int) -> Shortage:
    around = _in_cgroup("pids", "pids.max", most)
    return Shortage(f"processes-{most}", around, NO_PROCESS, before=_tidied("pids"))


def _few_pids(free: int) -> Shortage:
    def around(stage: Stage) -> AbstractContextManager[Confinement]:
        return small_pid_space.filled(stage, free)

    return Shortage(f"free-pids-{free}", around, NO_PROCESS, small_pid_space=True)


def _memory(kibibytes: int) -> Shortage:
    around = _in_cgroup("memory", "memory.limit_in_bytes", kibibytes * KIB)
    before = _tidied("memory")
    return Shortage(f"memory-{kibibytes}k", around, NO_MEMORY, before=before, kills=True)


def _tidied(controller: str) -> Callable[[Stage], AbstractContextManager[None]]:
    """Remove the cgroup that could not be removed before the container."""

    @contextlib.contextmanager
    def before(stage: Stage) -> Iterator[None]:
        yield
        place = cgroupfs.of_process("self")[controller] / f"{stage.id}-starved"
        if place.exists():
            _leave(place)

    return before


# --- file systems without room ------------------------------------------------------------


def state_root(stage: Stage) -> Path:
    return stage.root


def bundle(stage: Stage) -> Path:
    return stage.bundle.path


def run(_stage: Stage) -> Path:
    return Path("/run")


def _own_disk(where: Callable[[Stage], Path]) -> Callable[[Stage], AbstractContextManager[None]]:
    """Mount a separate filesystem on the directory, with the same content."""

    @contextlib.contextmanager
    def before(stage: Stage) -> Iterator[None]:
        place = where(stage)
        place.mkdir(mode=0o700, exist_ok=True)
        tree = _copy(place) if where is bundle else ""
        isolation.mount("none", str(place), "tmpfs", data=LARGE)
        if tree:
            _restore(tree, place)
            stage.bundle.save()  # the archive has the first case's config.json
        if where is run:
            _no_snapshot()
        try:
            yield
        finally:
            isolation.unmount(str(place))

    return before


def _no_snapshot() -> None:
    """Disable the snapshot in an empty /run, like a host that does not support it."""
    place = Path(snapshot.location({}, 0))
    place.parent.mkdir(mode=snapshot.DIRECTORY_MODE)
    place.touch(mode=0o600)


def _copy(place: Path) -> str:
    """Return an archive of a directory."""
    archive = place.with_suffix(".tar")
    if not archive.exists():
        os.spawnlp(os.P_WAIT, "tar", "tar", "-C", str(place), "-cf", str(archive), ".")
    return str(archive)


def _restore(archive: str, place: Path) -> None:
    os.spawnlp(os.P_WAIT, "tar", "tar", "-C", str(place), "-xf", archive)


def _inodes(where: Callable[[Stage], Path], free: int) -> Around:
    @contextlib.contextmanager
    def around(stage: Stage) -> Iterator[Confinement]:
        place = where(stage)
        numbers = os.statvfs(place)
        used = numbers.f_files - numbers.f_ffree
        # Not 0, which is no limit.
        isolation.mount("none", str(place), "tmpfs", MS_REMOUNT, f"nr_inodes={used + free}")
        try:
            yield FREE
        finally:
            isolation.mount("none", str(place), "tmpfs", MS_REMOUNT, "nr_inodes=100000")

    return around


def _pages(where: Callable[[Stage], Path], free: int) -> Around:
    @contextlib.contextmanager
    def around(stage: Stage) -> Iterator[Confinement]:
        place = where(stage)
        numbers = os.statvfs(place)
        used = (numbers.f_blocks - numbers.f_bfree) * numbers.f_bsize
        filler = place / ".filler"
        size = max(used, PAGE) + PAGE
        isolation.mount("none", str(place), "tmpfs", MS_REMOUNT, f"size={size + free * PAGE}")
        numbers = os.statvfs(place)
        filler.write_bytes(bytes((numbers.f_bfree - free) * numbers.f_bsize))
        try:
            yield FREE
        finally:
            filler.unlink()
            isolation.mount("none", str(place), "tmpfs", MS_REMOUNT, "size=64m")

    return around


NO_SPACE = ("no space left on device",)
# They need no room: a full disk must not keep a user from making some.
ROOMLESS = frozenset(
    ("kill", "kill-python", "delete", "delete-python", "delete-running", "delete-running-python")
) | {"delete-paused", "pause", "resume", "start", "start-python", "state", "list", "ps", "events"}


def _few_inodes(where: Callable[[Stage], Path], name: str, free: int) -> Shortage:
    around, before = _inodes(where, free), _own_disk(where)
    return Shortage(f"{name}-inodes-{free}", around, NO_SPACE, before, harmless=ROOMLESS)


def _few_pages(where: Callable[[Stage], Path], name: str, free: int) -> Shortage:
    around, before = _pages(where, free), _own_disk(where)
    return Shortage(f"{name}-pages-{free}", around, NO_SPACE, before, harmless=ROOMLESS)


# --- read-only file systems ---------------------------------------------------------------


@contextlib.contextmanager
def _read_only(places: list[Path]) -> Iterator[None]:
    for place in places:
        isolation.mount(str(place), str(place), "", MS_BIND)
        isolation.mount("none", str(place), "", MS_REMOUNT | MS_BIND | MS_RDONLY)
    try:
        yield
    finally:
        for place in reversed(places):
            isolation.unmount(str(place))


def _read_only_at(where: Callable[[Stage], Path]) -> Around:
    @contextlib.contextmanager
    def around(stage: Stage) -> Iterator[Confinement]:
        where(stage).mkdir(mode=0o700, exist_ok=True)
        with _read_only([where(stage)]):
            yield FREE

    return around


@contextlib.contextmanager
def _read_only_cgroups(_stage: Stage) -> Iterator[Confinement]:
    with _read_only(sorted(set(cgroupfs.hierarchies().values()))):
        yield FREE


READ_ONLY = ("read-only file system",)
READING = frozenset({"state", "list", "ps", "events", "kill", "kill-python"})


def _rigid(name: str, around: Around, *harmless: str) -> Shortage:
    return Shortage(f"read-only-{name}", around, READ_ONLY, harmless=READING | set(harmless))


# --- clocks -------------------------------------------------------------------------------


def _dated(seconds: int) -> Around:
    """Give all files of the state root other times, as after a clock jump."""

    @contextlib.contextmanager
    def around(stage: Stage) -> Iterator[Confinement]:
        now = int(Path("/proc/self").stat().st_mtime)
        for path in (stage.root, *stage.root.rglob("*")):
            os.utime(path, (now + seconds, now + seconds))
        yield FREE

    return around


def _booted(seconds: int) -> Around:
    """Run the command in a time namespace with another boot time."""

    @contextlib.contextmanager
    def around(_stage: Stage) -> Iterator[Confinement]:
        offsets = (f"--monotonic={seconds}", f"--boottime={seconds}")
        yield Confinement(("unshare", "--time", "--fork", *offsets, "--"))

    return around


# --- the table ----------------------------------------------------------------------------

EVERY = frozenset({"*"})

SHORTAGES = (
    *(_descriptors(most) for most in (3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20)),
    *(_processes(most) for most in (1, 2, 3, 4)),
    *(_few_pids(free) for free in (0, 1, 2, 3)),
    *(_address_space(most) for most in (1, 2, 4, 8, 16, 24, 32, 48, 64)),
    *(_memory(most) for most in (64, 256, 512, 1024, 2048, 4096, 8192, 12288)),
    *(_few_inodes(state_root, "state", free) for free in (0, 1, 2, 3, 5)),
    *(_few_pages(state_root, "state", free) for free in (0, 1, 2)),
    *(_few_inodes(bundle, "bundle", free) for free in (0, 1)),
    _few_pages(bundle, "bundle", 0),
    _few_inodes(run, "run", 0),
    _few_pages(run, "run", 0),
    _rigid("state", _read_only_at(state_root)),
    _rigid("bundle", _read_only_at(bundle)),
    _rigid("run", _read_only_at(run)),
    _rigid("cgroups", _read_only_cgroups, "start", "start-python"),
    Shortage("files-of-the-future", _dated(YEARS), (), harmless=EVERY),
    Shortage("files-of-the-past", _dated(-YEARS), (), harmless=EVERY),
    Shortage("clock-of-boot-ahead", _booted(100_000), (), harmless=EVERY),
    Shortage("clock-of-boot-behind", _booted(-1000), (), harmless=EVERY),
)
