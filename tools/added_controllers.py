"""Mount missing cgroup v1 controllers for one program and its children.

Beside a v2 hierarchy crun refuses to work without hugetlb, and a controller that is not mounted
cannot be compared. The mount points are in a tmpfs of the program's own mount namespace, and the
controllers are given back to the unified hierarchy afterwards: the host ends as it was.
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
    """Controllers that the kernel has, by /proc/cgroups."""
    rows = (line.split() for line in table.splitlines() if not line.startswith("#"))
    return {name for name, _, _, on in rows if on == "1"}


@contextmanager
def added(names: Sequence[str] = NAMES) -> Iterator[list[str]]:
    """Mount those of ``names`` that are missing and return them; none unless this host is cgroup
    v1.

    Call it in a private mount namespace.
    """
    here = os.geteuid() == 0 and os.path.ismount(CGROUPS / "memory")
    known = enabled(Path("/proc/cgroups").read_text()) if here else set()
    wanted = [name for name in names if name in known and not os.path.ismount(CGROUPS / name)]
    mounted = []
    with ExitStack() as stack:
        if wanted:
            _own_tree()
            stack.enter_context(unified_as_before(CGROUPS / "unified/cgroup.subtree_control"))
        for name in wanted:
            if _mount(name):
                mounted.append(name)
                stack.callback(_run, "umount", str(CGROUPS / name))
            else:
                say(f"the {name} controller is in use and not compared")
        yield mounted


def _own_tree() -> None:
    """A tmpfs in the place of the host's, with all that is mounted there."""
    place = Path(tempfile.mkdtemp(prefix="cgroup-"))
    _run("mount", "-t", "tmpfs", "-o", "mode=755", "cgroup", str(place))
    for entry in CGROUPS.iterdir():
        if entry.is_symlink():
            (place / entry.name).symlink_to(entry.readlink())
        elif entry.is_mount():
            (place / entry.name).mkdir()
            _run("mount", "--move", str(entry), str(place / entry.name))
    _run("mount", "--move", str(place), str(CGROUPS))
    place.rmdir()


def _mount(name: str) -> bool:
    """False if it is in use in the unified hierarchy."""
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
    """Restore that cgroup.subtree_control at the end."""
    before = _words(control)
    try:
        yield
    finally:
        # A controller comes back to the unified hierarchy a moment after it is unmounted.
        lost = before - _words(control)
        if not _repeated(lambda: all(_write(control, f"+{name}") for name in sorted(lost))):
            say(f"not enabled again in {control}: {' '.join(sorted(before - _words(control)))}")


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
    """Print a message to the user who waits for the result."""
    print(text, file=sys.stderr, flush=True)
