"""Fault injection: points where tests stop, kill or delay the process to provoke a race or crash.

A test sets ``OCIPOD_FAULT`` to ``POINT:stop``, ``POINT:kill`` or ``POINT:sleep=MILLISECONDS``, or
to several of these, separated by commas.  Without the variable, a point costs one lookup in the
environment.

The caller who sets the environment may have fewer privileges than the program (sudo's env_keep).
Therefore these variables are ignored unless the package contains the file ``_faults``.
``./dev build`` creates that file; no wheel contains it.
"""

from __future__ import annotations

import os

VARIABLE = "OCIPOD_FAULT"
MARKER = __file__.rpartition("/base/")[0] + "/_faults"


def fault(point: str) -> None:
    """Stop, kill or delay this process if ``OCIPOD_FAULT`` names ``point``."""
    faults = variable_for_tests(VARIABLE)
    if faults:
        _do(point, faults)


def variable_for_tests(name: str) -> str:
    """Return the value of the environment variable ``name``, which only tests set.

    Returns "" if it is unset, or if this is not a test build.
    """
    value = os.environ.get(name, "")
    return value if value and os.path.exists(MARKER) else ""


def _do(point: str, faults: str) -> None:
    import signal
    import time

    for entry in faults.split(","):
        name, _, action = entry.partition(":")
        if name != point:
            continue
        if action == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif action.startswith("sleep="):
            time.sleep(int(action.removeprefix("sleep=")) / 1000)
