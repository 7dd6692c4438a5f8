"""A command of ocipod that the manager started ends with the manager."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support import processes
from tests.support.ocipod import Ocipod

# Starts a command that waits for its request, prints its pid, and waits.
PARENT = """
import os, subprocess, sys, time
own = [f"--die-with-parent={os.getpid()}", "--nofile=512:1024"]
command = [*sys.argv[1:], *own, "app", "sandbox", "--request"]
child = subprocess.Popen(command, stdin=subprocess.PIPE)
print(child.pid, flush=True)
time.sleep(60)
"""


def test_the_command_is_killed(tmp_path: Path) -> None:
    command = Ocipod(tmp_path / "data").command()
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, *command], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    limits = Path(f"/proc/{child}/limits")
    try:
        assert processes.until(lambda: "512                  1024" in limits.read_text(), 10)
        # The daemon may be killed without a chance to end its commands.
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
        assert processes.until(lambda: not processes.alive(child), 10)
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
        processes.reap_orphans()  # the test process is a subreaper


def test_a_parent_that_has_exited_already(tmp_path: Path) -> None:
    done = Ocipod(tmp_path / "data")(f"--die-with-parent={os.getppid()}", "version")
    assert done.status == 254
    assert done.out == ""
