"""Open descriptors of processes, including our own, to compare before and after."""

from __future__ import annotations

import gc
import os
from pathlib import Path


def open_descriptors() -> list[str]:
    """Return the numbers of the open descriptors.

    Collects garbage first, so that earlier tests do not close any in between.
    """
    gc.collect()
    return sorted(os.listdir("/proc/self/fd"))


def targets(pid: int | str = "self") -> dict[str, str]:
    """Return {descriptor: its target}; descriptors closed meanwhile are omitted."""
    found = {}
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found[link.name] = os.readlink(link)
        except OSError:
            continue
    return found
