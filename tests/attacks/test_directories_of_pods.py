"""Data directories, settings and sockets of ocipod and ocid that another user has prepared.

Where no file of a directory may be read, the files are FIFOs: a command that opens one hangs.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.daemon import Daemon
from tests.support.ocipod import Ocipod
from tests.support.ordinary_user import UID, give
from tests.support.peers import judge_by
from tests.support.runtime import Runtime
from tests.support.spoilt import QUICK, SPOILT, Spoil, open_to_all, theirs

UUID = "5f7c1f6e-52b4-4d0e-9d5e-0a1b2c3d4e5f"
POD_COMMANDS = {
    "list": ("list",),
    "status": ("status", UUID),
    "rm": ("rm", UUID),
    "stop": ("stop", UUID),
    "gc": ("gc",),
    "enter": ("enter", UUID, "true"),
    "image list": ("image", "list"),
    "image gc": ("image", "gc"),
    "fetch": ("fetch", "./image.tar"),
    "run": ("run", "./image.tar"),
}
POD_FILES = (
    *("cas/index.json", "cas/index.db", "locks/prepareLock", "net/pods/lock"),
    *(f"pods/run/{UUID}/{name}" for name in ("pod", "runtime.json", "monitor.json", "ctl", "exit")),
)


def forge_pods(directory: Path) -> None:
    """Make a data directory whose files must not be opened."""
    for name in POD_FILES:
        file = directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(file)
    for path in (directory, *directory.rglob("*")):
        path.chmod(0o700)
    give(directory, UID)


@judge_by("ociruntime")
@pytest.mark.parametrize("words", POD_COMMANDS.values(), ids=POD_COMMANDS)
def test_pods_and_images_in_a_foreign_directory(
    runtime: Runtime, work: Path, words: tuple[str, ...]
) -> None:
    directory = work / "data"
    forge_pods(directory)
    before = sorted(directory.rglob("*"))
    done = Ocipod(directory)(*words, timeout=QUICK, cwd=work)
    done.failed("data directory", str(directory), f"uid {UID}")
    assert sorted(directory.rglob("*")) == before


@judge_by("ociruntime")
@SPOILT
@pytest.mark.parametrize("part", ["", "cas", "pods", "net", "locks"])
def test_a_part_of_the_data_directory(
    runtime: Runtime, work: Path, part: str, spoil: Spoil
) -> None:
    directory = work / "data"
    ocipod = Ocipod(directory)
    ocipod("image", "list").ok()
    ocipod("list").ok()
    place = directory / part
    place.mkdir(exist_ok=True)
    place.chmod(0o700)
    spoil(place)
    ocipod("image", "list", timeout=QUICK).failed("data directory", str(place))
    ocipod("list", timeout=QUICK).failed("data directory", str(place))


@judge_by("ociruntime")
def test_a_link_of_somebody_else_as_data_directory(runtime: Runtime, work: Path) -> None:
    sticky = work / "sticky"
    sticky.mkdir()
    sticky.chmod(0o1777)
    (work / "data").mkdir()
    link = sticky / "data"
    link.symlink_to(work / "data")
    Ocipod(link)("list").ok()
    os.chown(link, UID, UID, follow_symlinks=False)
    Ocipod(link)("list").failed("data directory", str(link), f"uid {UID}")


@judge_by("ociruntime")
@SPOILT
@pytest.mark.parametrize("option", ["local-config", "system-config", "user-config"])
def test_settings_that_say_whose_images_to_trust(
    runtime: Runtime, work: Path, option: str, spoil: Spoil
) -> None:
    settings = work / "settings"
    settings.mkdir()
    for name in ("policy.json", "registries.json", "auth.json"):
        os.mkfifo(settings / name)
    spoil(settings)
    ocipod = Ocipod(work / "data", None, "--insecure-options=none", f"--{option}={settings}")
    done = ocipod("fetch", "localhost:1/image", timeout=QUICK)
    done.failed("settings", str(settings))


@judge_by("ociruntime")
@SPOILT
@pytest.mark.parametrize("option", ["root", "dir"])
def test_the_manager_in_a_foreign_directory(
    runtime: Runtime, work: Path, option: str, spoil: Spoil
) -> None:
    directory = work / "foreign"
    forge_pods(directory)
    for name in ("lock", "events.jsonl", "containers/x/container.state"):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(directory / name)
    os.chown(directory, 0, 0)
    spoil(directory)
    refuses_to_start(Daemon(work, f"--{option}={directory}"), "data directory", str(directory))


def refuses_to_start(daemon: Daemon, *words: str) -> None:
    process = daemon.start(wait=False).process
    assert process is not None
    try:
        assert processes.until(lambda: process.poll() is not None, QUICK), "it waits or runs"
    finally:
        daemon.kill()
    assert process.returncode == 1
    for word in words:
        assert word in daemon.log.read_text()


@judge_by("ociruntime")
@pytest.mark.parametrize("spoil", [theirs, open_to_all])
def test_a_socket_in_a_foreign_directory(runtime: Runtime, work: Path, spoil: Spoil) -> None:
    """The owner of the directory can replace the daemon's socket with their own."""
    place = work / "sockets"
    place.mkdir()
    spoil(place)
    daemon = Daemon(work, f"--socket={place}/ocid.sock")
    refuses_to_start(daemon, "of the socket", str(place))
    assert not list(place.iterdir())


@judge_by("ociruntime")
@pytest.mark.parametrize("kind", ["socket", "link"])
def test_a_socket_that_somebody_else_prepared(runtime: Runtime, work: Path, kind: str) -> None:
    place = work / "sockets"
    place.mkdir()
    place.chmod(0o1777)
    planted = place / "ocid.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(work / "theirs"))  # nothing listens: a daemon would take it for its own
        if kind == "link":
            planted.symlink_to(work / "theirs")
        else:
            (work / "theirs").rename(planted)
    os.chown(planted, UID, UID, follow_symlinks=False)
    refuses_to_start(Daemon(work, f"--socket={planted}"), "socket", str(planted))
    assert planted.lstat().st_uid == UID
