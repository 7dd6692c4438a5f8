"""A process's descendants, found in /proc."""

from __future__ import annotations

import os
import subprocess

from ociruntime.runtime.host.descendants import descendants
from tests.support import processes


def test_tree_without_those_who_have_ended() -> None:
    script = "sleep 1001 & sh -c 'sleep 1002; :' & true & echo $!; wait"
    shell = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE)
    try:
        assert processes.until(lambda: len(descendants(shell.pid, with_namespace=False)) == 4), (
            descendants(shell.pid, with_namespace=False)
        )
        found = descendants(shell.pid, with_namespace=False)
        assert found == sorted(found)
        assert shell.pid in found
        assert os.getpid() not in found
        # Everybody is in our pid namespace.
        assert {os.getpid(), *found} <= set(descendants(shell.pid, with_namespace=True))
    finally:
        processes.end(set(descendants(shell.pid, with_namespace=False)))
        shell.communicate()


def test_nobody() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert descendants(gone.pid, with_namespace=True) == [gone.pid]
