"""Static programs of the tests, for root file systems that hold nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path

FLAGS = ("-static", "-Os", "-Wall", "-Wextra", "-Werror")


def build(target: Path, *sources: Path, flags: tuple[str, ...] = FLAGS) -> Path:
    """Compile ``sources`` to the program ``target`` and return that."""
    subprocess.run(["gcc", *flags, "-o", target, *sources], check=True)
    return target
