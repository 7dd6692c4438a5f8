"""Ending a pod from outside."""

from __future__ import annotations

import time

from ociruntime.base.errors import HostError, PodError, RuntimeFailure
from ociruntime.base.process import signal_process
from ociruntime.pods.store.control import ask
from ociruntime.pods.store.lock import wait_for_release
from ociruntime.pods.store.manifest_file import read_object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.pods.store.pod import Pod

SIGKILL = 9
BEGINNING = 5.0  # seconds that a monitor may take until it listens and answers
_PAUSE = 0.05
_BEFORE = ("embryo", "preparing", "aborted prepare", "prepared")


def stop_pod(pod: Pod, seconds: float, force: bool, wait: bool) -> bool:
    """Have the pod ended; False if it has already.  ``seconds``: between stop signal and KILL.

    With ``force`` no app is asked.  Returns at once, or with ``wait`` when the pod has ended.
    Raises PodError if it cannot be stopped, HostError.
    """
    if pod.state in _BEFORE:
        raise PodError(f"pod {pod.uuid} is not running: it is {pod.state}")
    if pod.state != "running":
        return False
    deadline = time.monotonic() + BEGINNING
    while True:
        try:
            request = {"op": "halt", "force": force, "seconds": seconds}
            ask(pod, request, max(0.1, deadline - time.monotonic()))
            break
        except RuntimeFailure:
            if pod.refresh() != "running":
                break  # it has ended meanwhile
            if time.monotonic() > deadline:
                if not force or not _kill(pod):
                    raise
                break
        time.sleep(_PAUSE)
    if wait:
        wait_for_release(pod.fd)
    return True


def _kill(pod: Pod) -> bool:
    """Kill the monitor that does not answer; the rest of the pod goes with it."""
    noted = read_object(pod, "monitor.json")
    if not noted:
        return False
    try:
        return signal_process(int(noted["pid"]), int(noted["start_time"]), SIGKILL)
    except (KeyError, ValueError, TypeError) as error:
        raise PodError(f"monitor.json of pod {pod.uuid} is damaged: {error}") from None
    except HostError:
        return False
