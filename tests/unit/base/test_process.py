"""Signals that end a command, and start times in time namespaces."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from ociruntime.base.process import start_time
from tests.support import project

ENDING = """
import os, signal
from ociruntime.base.process import end_on_signals

end_on_signals()
try:
    os.kill(os.getpid(), signal.SIGTERM)
except KeyboardInterrupt:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(os.getpid(), number)
    os.execv("/bin/sh", ["sh", "-c", "kill -HUP $$"])
"""


def python(script: str, *prefix: str) -> subprocess.CompletedProcess[str]:
    command = [*prefix, sys.executable, "-c", script]
    return subprocess.run(command, cwd=project.ROOT, capture_output=True, text=True, check=False)


def test_only_the_first_signal_interrupts() -> None:
    """Later ones would interrupt the undoing; a program that is started gets them all."""
    done = python(ENDING)
    assert done.stderr == ""
    assert done.returncode == -1  # SIGHUP, in the shell


@pytest.mark.parametrize("seconds", [100_000, -50])
def test_start_time_in_a_time_namespace(seconds: int) -> None:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs root and unshare(1)")
    offsets = ("unshare", "--time", "--fork", f"--boottime={seconds}", "--")
    script = f"from ociruntime.base.process import start_time\nprint(start_time({os.getpid()}))"
    done = python(script, *offsets)
    if done.returncode != 0:
        pytest.skip(f"no time namespace here: {done.stderr}")
    assert int(done.stdout) == start_time(os.getpid())
