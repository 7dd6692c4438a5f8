"""Places at which a test may stop, kill or delay the process, to try what a race or crash does.

``OCIPOD_FAULT=POINT:stop``, ``POINT:kill`` or ``POINT:sleep=MILLISECONDS``, several separated by
commas; without the variable a point costs one look at the environment.
"""

from __future__ import annotations

import os

VARIABLE = "OCIPOD_FAULT"


def fault(point: str) -> None:
    """Does what the environment asks for at ``point``, mostly nothing."""
    wishes = os.environ.get(VARIABLE)
    if wishes:
        _do(point, wishes)


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
