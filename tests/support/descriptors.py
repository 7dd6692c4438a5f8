"""What this very process has open, to compare before and after."""

from __future__ import annotations

import gc
import os


def open_descriptors() -> list[str]:
    """Their numbers.  What earlier tests have left to be collected does not go in between."""
    gc.collect()
    return sorted(os.listdir("/proc/self/fd"))
