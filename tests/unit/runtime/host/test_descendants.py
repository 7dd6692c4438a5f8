"""A process's descendants, found in /proc."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from ociruntime.runtime.lifecycle.container_processes import descendants
from tests.support import processes


def names(pids: list[int]) -> list[str]:
    """Return the programs' names; one that has ended meanwhile is "gone"."""
    paths = [Path(f"/proc/{pid}/comm") for pid in pids]
    return sorted(path.read_text().strip() if path.exists() else "gone" for path in paths)


def test_tree_without_ended_processes() -> None:
    script = "sleep 1001 & sh -c 'sleep 1002; :' & true & echo $!; wait"
    shell = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE)
    try:
        remaining = ["sh", "sh", "sleep", "sleep"]
        assert processes.until(
            lambda: names(descendants(shell.pid, with_namespace=False)) == remaining
        ), names(descendants(shell.pid, with_namespace=False))
        found = descendants(shell.pid, with_namespace=False)
        assert found == sorted(found)
        assert shell.pid in found
        assert os.getpid() not in found
        # All of them are in our pid namespace.
        assert {os.getpid(), *found} <= set(descendants(shell.pid, with_namespace=True))
    finally:
        processes.end(set(descendants(shell.pid, with_namespace=False)))
        shell.communicate()


def test_nobody() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert descendants(gone.pid, with_namespace=True) == [gone.pid]
