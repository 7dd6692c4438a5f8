"""Commands whose caller ignores SIGCHLD, which programs inherit: the kernel then reaps children."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tests.pods.sandbox import Sandbox
from tests.support import processes
from tests.support.ocipod import Ocipod
from tests.support.pod_images import busybox

IGNORE = """
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])
"""


def run(ocipod: Ocipod, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run a command of ocipod with SIGCHLD ignored."""
    assert signal.getsignal(signal.SIGCHLD) != signal.SIG_IGN
    command = [sys.executable, "-c", IGNORE, *ocipod.command(), *argv]
    return subprocess.run(
        command, capture_output=True, text=True, errors="replace", check=False, timeout=120
    )


def test_commands_that_wait_for_a_child(ocipod: Ocipod, work: Path) -> None:
    sandbox = Sandbox(ocipod, work)
    sandbox.add("one", "sleep 600")
    ocipod("app", "start", sandbox.uuid, "--app=one").ok()
    target = (sandbox.uuid, "--app=one")
    done = run(ocipod, "app", "exec", "--detach", *target, "--", "true")
    assert (done.returncode, done.stderr) == (0, "")
    done = run(ocipod, "app", "copy-out", *target, "/bin/busybox")
    assert (done.returncode, done.stderr, done.stdout[:8]) == (0, "", "busybox\0")
    stopping = ocipod.popen("stop", "--force", "--wait", sandbox.uuid)

    def has_stopped() -> bool:
        processes.reap_orphans()  # the executed program is our child, and keeps its PID namespace
        return stopping.poll() is not None

    assert processes.until(has_stopped, 20)
    done = run(ocipod, "export", *target, str(work / "exported"))
    assert (done.returncode, done.stderr) == (0, "")


def test_a_pod_that_cannot_be_started(ocipod: Ocipod, work: Path) -> None:
    """The command waits for the monitor, to tell why it has exited."""
    uuid = ocipod("prepare", busybox(work), "--exec=/none").ok().out.strip()
    done = run(ocipod, "run-prepared", "--detach", "--net=none", uuid)
    assert done.returncode == 254
    assert "/none" in done.stderr
