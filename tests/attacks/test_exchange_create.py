"""While ``create`` runs, another container replaces a directory or file with a symbolic link.

Both containers share a volume.  The link leads to a directory of the host, next to the bundle.
Whatever the runtime creates, mounts, copies or opens must stay inside the container's root.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.attacks.devices import host_devices, tamper
from tests.attacks.exchange import Met, until_met
from tests.support.bundle import Bundle
from tests.support.container import Container
from tests.support.notify import Manager
from tests.support.peers import deviates, judge_by
from tests.support.plugin import MakeBundle, MakeContainer
from tests.support.terminal import ConsoleSocket

__all__ = ["host_devices", "tamper"]  # fixtures

SECRET = "of the host"

Place = tuple[str, str]  # names in the volume: the real one, the link that takes its place


@pytest.fixture
def outside(work: Path) -> Iterator[Path]:
    """A directory of the host that looks like the volume, and must not change."""
    place = work / "outside"
    (place / "pts").mkdir(parents=True)
    for name in ("secret", "null", "console", "pts/ptmx"):
        (place / name).write_text(SECRET)
    before = _listing(place), _kernel()
    yield place
    assert (_listing(place), _kernel()) == before


def _listing(place: Path) -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = []
    for path in sorted(place.rglob("*")):
        seen = path.lstat()
        found.append((str(path), seen.st_mode, seen.st_uid, seen.st_gid, seen.st_ctime_ns))
    return found


def _kernel() -> tuple[str, str]:
    """Return the host's mounts, and a program that root runs for anyone who can replace it."""
    mounts = Path("/proc/self/mountinfo").read_text()
    return mounts, Path("/proc/sys/kernel/core_pattern").read_text()


@pytest.fixture
def volume(work: Path, outside: Path) -> Path:
    """A directory shared by both containers, with a link to the host for each file in it."""
    place = work / "volume"
    (place / "dir").mkdir(parents=True)
    (place / "dir/secret").write_text("of the volume")
    (place / "link").symlink_to(outside)
    return place


def _masks(one: Bundle, volume: Path) -> Place:
    """Add a masked file and a masked directory in the volume."""
    one.bind(volume, "/vol").shell("cat /vol/dir/secret; true")
    one.linux["maskedPaths"] = ["/vol/dir/secret", "/vol/dir"]
    return "dir", "link"


def _read_only(one: Bundle, volume: Path) -> Place:
    """Add a read-only path in the volume."""
    one.bind(volume, "/vol").shell("cat /vol/dir/secret; true")
    one.linux["readonlyPaths"] = ["/vol/dir"]
    return "dir", "link"


def _copy_up(one: Bundle, volume: Path) -> Place:
    """Add a tmpfs with ``tmpcopyup`` on a directory of the volume."""
    one.bind(volume, "/vol").mount("/vol/dir", "tmpfs", "tmpfs", "tmpcopyup")
    one.shell("cat /vol/dir/*; true")
    return "dir", "link"


def _copied_directory(one: Bundle, volume: Path) -> Place:
    """Add a tmpfs whose copied directory has a subdirectory that is exchanged."""
    one.bind(volume, "/vol").mount("/vol", "tmpfs", "tmpfs", "tmpcopyup")
    one.shell("cat /vol/*/secret; true")
    return "dir", "link"


def _working_directory(one: Bundle, volume: Path) -> Place:
    """Set a working directory that ``create`` has to make."""
    one.bind(volume, "/vol").shell("true")
    one.process["cwd"] = "/vol/dir/new/deep"
    return "dir", "link"


def _mount_point(one: Bundle, volume: Path) -> Place:
    """Add a mount whose mount point ``create`` has to make."""
    one.bind(volume, "/vol").mount("/vol/dir/new/point", "tmpfs", "tmpfs").shell("true")
    return "dir", "link"


def _dev(one: Bundle, volume: Path) -> None:
    """Make the volume the container's /dev."""
    for mount in one.config["mounts"]:
        if mount["destination"] == "/dev":
            mount.update({"type": "bind", "source": str(volume), "options": ["bind"]})
    for name in ("pts", "shm", "mqueue"):
        (volume / name).mkdir()


def _null_device(one: Bundle, volume: Path) -> Place:
    """Exchange the null device with a link to the host's file of that name."""
    _dev(one, volume)
    os.mknod(volume / "null", 0o20666, os.makedev(1, 3))
    (volume / "other").symlink_to(volume.parent / "outside/null")
    one.args("/bin/tamper", "fds")
    return "null", "other"


def _wrong_device(one: Bundle, volume: Path) -> Place:
    """Exchange the null device with a FIFO that has no writer."""
    _dev(one, volume)
    os.mknod(volume / "null", 0o20666, os.makedev(1, 3))
    os.mkfifo(volume / "other")
    one.args("/bin/tamper", "fds")
    return "null", "other"


def _console(one: Bundle, volume: Path) -> Place:
    """Exchange the mount point of the terminal."""
    _dev(one, volume)
    (volume / "console").write_text("")
    (volume / "other").symlink_to(volume.parent / "outside/console")
    one.process["terminal"] = True
    one.shell("true")
    return "console", "other"


def _terminals(one: Bundle, volume: Path) -> Place:
    """Exchange the mount point of devpts, where the terminal is opened."""
    _dev(one, volume)
    (volume / "other").symlink_to(volume.parent / "outside/pts")
    one.process["terminal"] = True
    one.shell("true")
    return "pts", "other"


PLACES: dict[str, Callable[[Bundle, Path], Place]] = {
    "masks": _masks,
    "read-only paths": _read_only,
    "copy up": _copy_up,
    "copied directory": _copied_directory,
    "working directory": _working_directory,
    "mount point": _mount_point,
    "null device": _null_device,
    "wrong device": _wrong_device,
    "console": _console,
    "terminals": _terminals,
}


def _attempt(one: Container, socket: Path) -> bool:
    """Run the container once; return whether it was created.

    Fails if it has read the host's file.
    """
    if not one.bundle.process["terminal"]:
        done = one.run()
        assert SECRET not in done.out
        return done.status == 0
    listener = ConsoleSocket(socket)
    try:
        done = one.create("--console-socket", str(socket))
        if done.status == 0:
            os.close(listener.receive().master)
            one.delete("--force").ok()
            one.wait()
        return done.status == 0
    finally:
        listener.close()
        socket.unlink()


@pytest.mark.parametrize("place", list(PLACES))
def test_exchange(
    container: MakeContainer,
    bundle: MakeBundle,
    exchange: Path,
    tamper: Path,
    outside: Path,
    volume: Path,
    tries: Callable[[int, int], int],
    place: str,
) -> None:
    """Exchange the files in a loop while containers are created."""
    one = bundle()
    os.link(tamper, one.rootfs / "bin/tamper")
    names = PLACES[place](one, volume)
    made = container(one)
    count = tries(50, 2000)
    met = Met(count)
    process = subprocess.Popen([exchange, *(str(volume / name) for name in names)])
    try:
        for _ in until_met(count, met):
            met.note(_attempt(made, volume.parent / "socket"))
        assert process.poll() is None, "nothing was exchanged any more"
    finally:
        process.kill()
        process.wait()
    met.check()


MOVED = {
    "renamed": "mv {0} moved",
    "replaced": "mv {0} moved; mkdir -p {0}/sys {0}/firmware",
    "led elsewhere": "mv {0} moved; ln -s /tmp {0}",
}
UNCOVERED = "restricts what it finds, and begins the program if that is nothing"
PROC = pytest.param("proc", marks=deviates(crun=UNCOVERED))
SYS = pytest.param("sys", marks=deviates(runc=UNCOVERED, crun=UNCOVERED))


@pytest.mark.parametrize("way", MOVED.values(), ids=MOVED)
@pytest.mark.parametrize("name", [PROC, SYS])
def test_a_neighbour_moves_a_mount_before_it_is_restricted(
    container: MakeContainer, bundle: MakeBundle, name: str, way: str
) -> None:
    """A hook on the host does what another container that shares the root filesystem could do."""
    script = """
        for place in /proc /sys /moved; do
            echo forged 2>/dev/null >$place/sys/kernel/domainname && echo written
            test "$(ls $place/firmware 2>/dev/null)" && echo unmasked
        done; true
    """
    one = bundle().shell(script)
    one.linux["maskedPaths"] = ["/sys/firmware"]
    one.linux["readonlyPaths"] = ["/proc/sys"]
    command = f"cd {one.rootfs} && {way.format(name)}"
    one.hooks["createRuntime"] = [{"path": "/bin/sh", "args": ["sh", "-c", command]}]
    done = container(one).run()
    assert done.out == ""
    assert done.status != 0


@judge_by("ociruntime")
def test_exchange_below_the_notify_socket(
    container: MakeContainer,
    bundle: MakeBundle,
    exchange: Path,
    volume: Path,
    work: Path,
    tries: Callable[[int, int], int],
) -> None:
    """Exchange /run, which contains the container's notify socket."""
    manager = Manager(work / "manager")
    one = bundle("true")
    (one.rootfs / "link").symlink_to(volume.parent / "outside")
    made = container(one)
    count = tries(50, 2000)
    met = Met(count)
    process = subprocess.Popen([exchange, one.rootfs / "run", one.rootfs / "link"])
    try:
        for _ in until_met(count, met):
            met.note(made.run(env=manager.environment).status == 0)
        assert process.poll() is None, "nothing was exchanged any more"
    finally:
        process.kill()
        process.wait()
        manager.close()
    met.check()
