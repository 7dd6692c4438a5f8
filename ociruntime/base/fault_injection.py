"""Fault injection: points where tests stop, kill or delay the process to provoke a race or crash.

``OCIPOD_FAULT=POINT:stop``, ``POINT:kill`` or ``POINT:sleep=MILLISECONDS``, several separated by
commas; without the variable, a point costs one lookup in the environment.

Environments come from callers, who may have fewer privileges than the program (sudo's env_keep).
So these variables are ignored unless the package contains the file ``_faults``, which ``./dev
build`` creates and no wheel contains.
"""

from __future__ import annotations

import os

VARIABLE = "OCIPOD_FAULT"
MARKER = __file__.rpartition("/base/")[0] + "/_faults"


def fault(point: str) -> None:
    """Inject the fault that the environment sets for ``point``, if any."""
    wishes = variable_for_tests(VARIABLE)
    if wishes:
        _do(point, wishes)


def variable_for_tests(name: str) -> str:
    """Return the value of a test variable; "" if it is not set or this is not a test build."""
    value = os.environ.get(name, "")
    return value if value and os.path.exists(MARKER) else ""


def _do(point: str, wishes: str) -> None:
    import signal
    import time

    for wish in wishes.split(","):
        name, _, action = wish.partition(":")
        if name != point:
            continue
        if action == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif action.startswith("sleep="):
            time.sleep(int(action.removeprefix("sleep=")) / 1000)
