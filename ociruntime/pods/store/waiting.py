"""Wait for a pod to exit or to become ready.

For the end of a locked pod, a thread sleeps in flock(2).  A prepared pod is polled, because an
observer must not lock it.
"""

from __future__ import annotations

import os
import time

from ociruntime.pods.store.description import is_ready
from ociruntime.pods.store.lock import open_directory, wait_for_release
from ociruntime.pods.store.pod import GONE, STATES, Pod

# States that change only by removal.
ENDED = ("aborted prepare", "exited", "exited garbage", "garbage", GONE)
_LOCKED = tuple(locked for locked, free in STATES.values() if locked != free)
_GLANCE = 0.05


def wait_for_end(pod: Pod, timeout: float) -> bool:
    """Wait up to ``timeout`` seconds; return False if the pod has not ended.  Raises HostError."""
    deadline = time.monotonic() + timeout
    while pod.refresh() not in ENDED:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            return False
        if pod.state in _LOCKED:
            _wait_for_lock(pod, remaining)
        else:
            time.sleep(min(_GLANCE, remaining))
    return True


def wait_until_ready(pod: Pod, timeout: float) -> bool:
    """Wait up to ``timeout`` seconds; return False if not ready or ended.  Raises HostError."""
    deadline = time.monotonic() + timeout
    while not is_ready(pod):
        if pod.state in ENDED or pod.refresh() in ENDED or time.monotonic() >= deadline:
            return False
        time.sleep(_GLANCE)
    return True


def _wait_for_lock(pod: Pod, seconds: float) -> None:
    from threading import TIMEOUT_MAX, Thread

    # Use a separate open file: others refresh the pod's, which releases its lock.
    fd = open_directory(".", pod.fd)
    thread = Thread(target=_wait_and_close, args=(fd,), daemon=True)
    thread.start()
    thread.join(min(seconds, TIMEOUT_MAX))


def _wait_and_close(fd: int) -> None:
    try:
        wait_for_release(fd)
    finally:
        os.close(fd)
