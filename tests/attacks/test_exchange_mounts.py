"""A process in the container replaces a directory while the runtime works on a path through it.

``/race/dir`` is exchanged with ``/race/lure``, where the same names are links to directories that
the runtime must not touch.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.attacks.exchange import MakeHostile, Met, until_met
from tests.support import cgroupfs, processes
from tests.support.container import Container
from tests.support.criu import working_criu
from tests.support.live_mounts import change, entry, mount_lines
from tests.support.peers import judge_by
from tests.support.plugin import MakeContainer

Tries = Callable[[int, int], int]

PLACE = "/race/dir/b"
ROOM = entry(PLACE, "tmpfs", "tmpfs", "size=64k")
FAILS = entry("/etc/hostname/below", "tmpfs", "tmpfs")
BATCH = 100


@contextmanager
def exchanging(one: Container) -> Iterator[None]:
    """Context manager: exchange the two directories in a loop."""
    pid = one.exec_detached("/bin/exchange", "/race/dir", "/race/lure")
    try:
        yield
        assert processes.parent(pid) == os.getpid(), "the swapping process has exited early"
    finally:
        one.end_executed()


def lured(hostile: MakeHostile, container: MakeContainer, **links: str) -> Container:
    """A container with both directories: one has directories, the other links of the same names."""
    made = hostile()
    made.args("sleep", "1000")
    for name, text in links.items():
        (made.rootfs / "race" / "dir" / name).mkdir(parents=True)
        (made.rootfs / "race" / "lure").mkdir(exist_ok=True)
        (made.rootfs / "race" / "lure" / name).symlink_to(text)
    return container(made).started()


class Judge:
    """The mounts of the container and of the host, except those in /race."""

    def __init__(self, one: Container) -> None:
        self._one = one
        self._before = self._look()

    def _look(self) -> list[str]:
        inside = [line for line in mount_lines(self._one) if " /race/" not in line]
        assert any(" /proc/sys ro," in line for line in inside)
        return inside + self._host()

    def _host(self) -> list[str]:
        return Path("/proc/self/mountinfo").read_text().splitlines()

    def unchanged(self) -> None:
        """Assert that no other mount was added, removed or changed."""
        assert self._look() == self._before

    def host_unchanged(self) -> None:
        """Assert that the host's mounts are unchanged."""
        assert self._host() == self._before[-len(self._host()) :]


@judge_by("ociruntime")
def test_mounts_add_while_directories_are_exchanged(
    container: MakeContainer, hostile_bundle: MakeHostile, tries: Tries
) -> None:
    one = lured(hostile_bundle, container, b="/proc/sys")
    judge, count = Judge(one), tries(50, 2000)
    met = Met(count, succeeded=0.05, failed=0.05)
    with exchanging(one):
        for _ in until_met(count, met):
            met.note(change(one, "add", ROOM).status == 0)
            judge.unchanged()
    met.check()


@judge_by("ociruntime")
def test_mounts_remove_while_directories_are_exchanged(
    container: MakeContainer, hostile_bundle: MakeHostile, tries: Tries
) -> None:
    one = lured(hostile_bundle, container, b="/proc/sys")
    judge, count = Judge(one), tries(BATCH, 2000)
    met = Met(count, succeeded=0.05, failed=0.05)
    for _ in until_met(count // BATCH, met):
        before = len(mount_lines(one))
        change(one, "add", *[ROOM] * BATCH).silent()
        with exchanging(one):
            for _ in range(BATCH):
                met.note(change(one, "remove", ROOM).status == 0)
                judge.unchanged()
        if "b" not in os.listdir(f"/proc/{one.pid}/root/race/dir") or os.path.islink(
            f"/proc/{one.pid}/root{PLACE}"
        ):
            one.exec("/bin/sh", "-c", "cd /race; mv dir x; mv lure dir; mv x lure").ok()
        left = len(mount_lines(one)) - before
        if left:
            change(one, "remove", *[ROOM] * left).silent()
    met.check()


@judge_by("ociruntime")
def test_undoing_of_mounts_add_while_directories_are_exchanged(
    container: MakeContainer, hostile_bundle: MakeHostile, tries: Tries
) -> None:
    one = lured(hostile_bundle, container, b="/proc/sys")
    judge, count = Judge(one), tries(50, 2000)
    met = Met(count, succeeded=0.05, failed=0.05)
    with exchanging(one):
        for _ in until_met(count, met):
            before = len(mount_lines(one))
            result = change(one, "add", ROOM, FAILS)
            assert result.status != 0, result
            left = len(mount_lines(one)) - before
            assert left == ("not undone" in result.err), result
            met.note("/etc/hostname/below" in result.err and not left)
            judge.unchanged()
    met.check()


def test_working_directory_of_exec_while_directories_are_exchanged(
    container: MakeContainer, hostile_bundle: MakeHostile, tries: Tries
) -> None:
    """The links lead to descriptors that the runtime may have open (CVE-2024-21626)."""
    one = lured(
        hostile_bundle, container, **{f"b{fd}": f"/proc/self/fd/{fd}" for fd in range(3, 13)}
    )
    judge, count = Judge(one), tries(50, 2000)
    met = Met(count, succeeded=0.05, failed=0.05)
    with exchanging(one):
        for index in until_met(count, met):
            name = f"b{3 + index % 10}"
            result = one.exec(f"--cwd=/race/dir/{name}", "sh", "-c", "cd . && pwd -P")
            if result.status == 0:
                assert result.out in {f"/race/dir/{name}\n", f"/race/lure/{name}\n"}, result
            met.note(result.status == 0)
    judge.unchanged()
    met.check()


@judge_by("ociruntime")
def test_restore_while_directories_are_exchanged(
    container: MakeContainer, hostile_bundle: MakeHostile, work: Path, tries: Tries
) -> None:
    """Another container exchanges directories of a shared volume that contains a mount point.

    If two mounts have the same source, CRIU forgets the flags of the second, so that the runtime
    sets them again.
    """
    criu = working_criu()
    assert processes.until(cgroupfs.let_go_of_unmounted, 30)
    volume, source, images = work / "race", work / "source", work / "images"
    source.mkdir()
    for name in ("b", "c"):
        (volume / "dir" / name).mkdir(parents=True)
        (volume / "lure").mkdir(exist_ok=True)
        (volume / "lure" / name).symlink_to("/proc/sys")
    made = hostile_bundle()
    made.args("sleep", "1000")
    made.bind(volume, "/race", "bind").bind(source, PLACE, "bind", "noexec")
    made.bind(source, "/race/dir/c", "bind", "noexec")
    one = container(made)
    one._output.close()
    one._output = (made.path / "output").open("w+b")  # CRIU gives back only what has a name
    one.started()
    other = hostile_bundle("/race/dir", "/race/lure").bind(volume, "/race", "bind")
    judge = Judge(one)
    flags = [f"--image-path={images}", one.id]
    one.runtime("--criu", criu, "checkpoint", *flags).silent()
    processes.reap_orphans()
    one.exists = False
    exchange = container(other).started()
    count, done = tries(40, 400), 0
    words = ["--bundle", str(made.path), "--pid-file", str(one.pid_file), "--detach", *flags]
    restore = one.runtime.command("--criu", criu, "restore", *words)
    for attempt in range(5 * count):
        if attempt >= count and done:
            break
        if attempt >= count:
            # On a busy machine all fail in CRIU, which opens the mount points by their paths: hold
            # the exchange for the length of a restore, now in one order and now in the other.
            os.kill(exchange.pid, signal.SIGCONT)
            time.sleep(0.001)
            os.kill(exchange.pid, signal.SIGSTOP)
        ended = subprocess.run(
            restore, stdin=subprocess.DEVNULL, stdout=one._output, stderr=subprocess.DEVNULL
        )
        one.exists = ended.returncode == 0
        if one.exists:
            done += 1
            lines = mount_lines(one)
            assert [line for line in lines if " /proc/sys ro," in line], lines
            one.delete("--force").ok()
        processes.reap_orphans()
    os.kill(exchange.pid, signal.SIGCONT)
    assert exchange.status == "running"
    assert done
    judge.host_unchanged()
