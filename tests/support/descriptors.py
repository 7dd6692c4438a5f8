"""Open descriptors of processes; of our own also for comparison before and after."""

from __future__ import annotations

import gc
import os
from pathlib import Path


def open_descriptors() -> list[str]:
    """Their numbers.  What earlier tests have left to be collected does not go in between."""
    gc.collect()
    return sorted(os.listdir("/proc/self/fd"))


def targets(pid: int | str = "self") -> dict[str, str]:
    """Descriptor -> what it leads to.  One that is closed meanwhile is left out."""
    found = {}
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found[link.name] = os.readlink(link)
        except OSError:
            continue
    return found
