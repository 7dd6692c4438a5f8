"""The pod part of ``./dev demo`` works, and leaves nothing behind."""

from __future__ import annotations

import subprocess

from tests.support.ocipod import PROGRAM, REPOSITORY, Ocipod


def test_demo(ocipod: Ocipod) -> None:
    """It runs in a separate directory; the fixture checks mounts and processes afterwards."""
    command = ["sh", "tools/demo_pods.sh", str(PROGRAM.parent)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "left: left on pair\n" in done.stdout
    assert done.stdout.count(" nothing\n") == 4
