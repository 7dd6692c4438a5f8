"""Waiting for a pod to end, or to be ready.

Where the lock tells it, a thread sleeps in flock(2) and wakes up with the pod's end; a pod that
is prepared is only looked at, because nobody may lock it for that.
"""

from __future__ import annotations

import posix
import time

from ociruntime.pods.store.description import is_ready
from ociruntime.pods.store.lock import open_directory, wait_for_release
from ociruntime.pods.store.pod import GONE, STATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.pods.store.pod import Pod

# Nothing happens any more by itself, except that it is thrown away.
ENDED = ("aborted prepare", "exited", "exited garbage", "garbage", GONE)
_LOCKED = tuple(locked for locked, free in STATES.values() if locked != free)
_GLANCE = 0.05


def wait_for_end(pod: Pod, patience: float) -> bool:
    """False if it has not ended after so many seconds.  Raises HostError."""
    deadline = time.monotonic() + patience
    while pod.refresh() not in ENDED:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            return False
        if pod.state in _LOCKED:
            _wait_for_lock(pod, remaining)
        else:
            time.sleep(min(_GLANCE, remaining))
    return True


def wait_until_ready(pod: Pod, patience: float) -> bool:
    """False if it is not ready after so many seconds, or has ended.  Raises HostError."""
    deadline = time.monotonic() + patience
    while not is_ready(pod):
        if pod.state in ENDED or pod.refresh() in ENDED or time.monotonic() >= deadline:
            return False
        time.sleep(_GLANCE)
    return True


def _wait_for_lock(pod: Pod, seconds: float) -> None:
    from threading import TIMEOUT_MAX, Thread

    # An open file of its own: that of the pod is looked at and let go by others.
    fd = open_directory(".", pod.fd)
    thread = Thread(target=_wait_and_close, args=(fd,), daemon=True)
    thread.start()
    thread.join(min(seconds, TIMEOUT_MAX))


def _wait_and_close(fd: int) -> None:
    try:
        wait_for_release(fd)
    finally:
        posix.close(fd)
