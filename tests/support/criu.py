"""Find a CRIU that works on this kernel."""

from __future__ import annotations

import functools
import os

import pytest

from ociruntime.base.errors import CriuError
from ociruntime.runtime.host.criu import find_criu, obstacle

BUILT = os.environ.get("OCIRUNTIME_CRIU_DIR", "/var/tmp/ociruntime-criu") + "/criu"


@functools.cache
def find() -> tuple[str, str]:
    """Return (program, ""), or ("", the reason that ``criu check`` gives)."""
    reasons = []
    for name in ("", BUILT):
        try:
            program = find_criu(name)
        except CriuError as error:
            reasons.append(str(error))
            continue
        reason = obstacle(program)
        if not reason:
            return program, ""
        reasons.append(f"{program}: {reason}")
    return "", "; ".join(reasons)


def working_criu() -> str:
    """Return the program; skip the test if there is none."""
    program, reason = find()
    if not program:
        pytest.skip(f"{reason} (tests/criu/build unpacks one)")
    return program
