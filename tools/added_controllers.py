"""Mount missing cgroup v1 controllers for this process and its children.

On a hybrid host crun fails without hugetlb, and cases for controllers that are not mounted are
skipped. The mount points are in a tmpfs in the caller's private mount namespace; afterwards the
controllers return to the unified hierarchy, so the host is left unchanged.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
NAMES = ("hugetlb", "net_cls", "net_prio")
TRIES, PAUSE = 10, 0.3


def enabled(table: str) -> set[str]:
    """Return the controllers enabled in the kernel; ``table`` is the content of /proc/cgroups."""
    rows = (line.split() for line in table.splitlines() if not line.startswith("#"))
    return {name for name, _, _, on in rows if on == "1"}


@contextmanager
def added(names: Sequence[str] = NAMES) -> Iterator[list[str]]:
    """Mount those of ``names`` that are not mounted, and yield the ones that could be.

    Yields [] unless this is root on a host with cgroup v1. Call it in a private mount namespace.
    """
    here = os.geteuid() == 0 and os.path.ismount(CGROUPS / "memory")
    known = enabled(Path("/proc/cgroups").read_text()) if here else set()
    missing = [name for name in names if name in known and not os.path.ismount(CGROUPS / name)]
    mounted = []
    with ExitStack() as stack:
        if missing:
            _own_tree()
            stack.enter_context(unified_as_before(CGROUPS / "unified/cgroup.subtree_control"))
        for name in missing:
            if _mount(name):
                mounted.append(name)
                stack.callback(_run, "umount", str(CGROUPS / name))
            else:
                say(f"cannot mount the cgroup v1 controller {name}: in use by cgroup v2")
        yield mounted


def _own_tree() -> None:
    """Mount a new tmpfs over /sys/fs/cgroup, and move the hierarchies mounted there to it."""
    tmpfs = Path(tempfile.mkdtemp(prefix="cgroup-"))
    _run("mount", "-t", "tmpfs", "-o", "mode=755", "cgroup", str(tmpfs))
    for entry in CGROUPS.iterdir():
        if entry.is_symlink():
            (tmpfs / entry.name).symlink_to(entry.readlink())
        elif entry.is_mount():
            (tmpfs / entry.name).mkdir()
            _run("mount", "--move", str(entry), str(tmpfs / entry.name))
    _run("mount", "--move", str(tmpfs), str(CGROUPS))
    tmpfs.rmdir()


def _mount(name: str) -> bool:
    """Mount a controller; return False if the unified hierarchy keeps using it."""
    point = CGROUPS / name
    point.mkdir()
    command = ["mount", "-t", "cgroup", "-o", name, "cgroup", str(point)]

    def attempt() -> bool:
        if subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0:
            return True
        # A removed container may have enabled it there; the kernel releases it with a delay.
        _write(CGROUPS / "unified/cgroup.subtree_control", f"-{name}")
        return False

    if _repeated(attempt):
        return True
    # Remove the directory: a runtime would mistake it for the hierarchy, and fill it with files.
    point.rmdir()
    return False


@contextmanager
def unified_as_before(control: Path) -> Iterator[None]:
    """Restore the controllers in the cgroup.subtree_control file ``control`` at the end."""
    before = _words(control)
    try:
        yield
    finally:
        # A controller comes back to the unified hierarchy a moment after it is unmounted.
        lost = before - _words(control)
        if not _repeated(lambda: all(_write(control, f"+{name}") for name in sorted(lost))):
            still_lost = " ".join(sorted(before - _words(control)))
            say(f"cannot enable controllers again in {control}: {still_lost}")


def _words(control: Path) -> set[str]:
    return set(control.read_text().split()) if control.exists() else set()


def _write(control: Path, word: str) -> bool:
    try:
        control.write_text(word)
    except OSError:
        return False
    return True


def _repeated(attempt: Callable[[], bool]) -> bool:
    for _ in range(TRIES):
        if attempt():
            return True
        time.sleep(PAUSE)
    return False


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


def say(text: str) -> None:
    """Print a message to standard error."""
    print(text, file=sys.stderr, flush=True)
