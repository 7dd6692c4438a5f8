"""A pod's lock holder kills the remaining processes of the pod's cgroups, and no others."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support import project


def test_a_pid_that_is_used_again_is_spared(tmp_path: Path) -> None:
    program = str(tmp_path / "check_lock_holder")
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-Icsrc/init"]
    command = ["gcc", *flags, "-o", program, "tests/executor/check_lock_holder.c"]
    subprocess.run(command, cwd=project.ROOT, check=True)
    assert subprocess.run([program], timeout=30).returncode == 0
