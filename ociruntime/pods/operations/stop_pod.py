"""Stop a pod: send the request ``halt`` to its monitor, and wait until the pod has exited.

On this request, the monitor sends the stop signal to the apps, waits, and kills those that are
still running (``pods/monitor/app_run.py``).
"""

from __future__ import annotations

import time

from ociruntime.base.errors import HostError, PodError, RuntimeFailure
from ociruntime.base.linux import SIGKILL
from ociruntime.base.process import signal_process
from ociruntime.pods.store.control_client import ask
from ociruntime.pods.store.manifest_file import read_object
from ociruntime.pods.store.pod import Pod

START_TIMEOUT = 5.0  # seconds for a new monitor to open its socket and answer
_PAUSE = 0.05
_GLANCE = 0.02
_BEFORE = ("embryo", "preparing", "aborted prepare", "prepared")


def stop_pod(pod: Pod, seconds: float, force: bool, wait: bool) -> bool:
    """Stop a running pod; return False if it has exited already.

    ``seconds`` is the time between the stop signal and SIGKILL.  With ``force``, the apps are
    killed at once; if the monitor does not answer, it is killed, too.  With ``wait``, wait until
    the pod has exited.  Raises PodError if the pod has not run yet or cannot be stopped, HostError
    if its monitor cannot be reached.
    """
    if pod.state in _BEFORE:
        raise PodError(f'pod {pod.uuid} is not running: its state is "{pod.state}"')
    if pod.state != "running":
        return False
    deadline = time.monotonic() + START_TIMEOUT
    while True:
        run = _run_of(pod)
        try:
            request = {"op": "halt", "force": force, "seconds": seconds}
            ask(pod, request, max(0.1, deadline - time.monotonic()))
            break
        except RuntimeFailure:
            if pod.refresh() != "running":
                break  # the pod has exited meanwhile
            if time.monotonic() > deadline:
                if not force or not _kill(pod):
                    raise
                break
        time.sleep(_PAUSE)
    if wait:
        # Do not wait for the pod's lock: another process may run the pod again at once.
        run = run or _run_of(pod)
        while pod.refresh() == "running" and _run_of(pod) == run:
            time.sleep(_GLANCE)
    return True


def _run_of(pod: Pod) -> object:
    """Return a value that identifies the pod's current run, or None if it is not known yet.

    The value is (pid, start time) of the monitor, from the file monitor.json.
    """
    monitor = read_object(pod, "monitor.json") or {}
    return monitor.get("pid") and (monitor.get("pid"), monitor.get("start_time"))


def _kill(pod: Pod) -> bool:
    """Kill the pod's monitor; the pod's other processes then exit as well.

    Returns False if the monitor's pid is not known or the monitor cannot be killed.  Raises
    PodError if the file monitor.json is damaged.
    """
    monitor = read_object(pod, "monitor.json")
    if not monitor:
        return False
    try:
        return signal_process(int(monitor["pid"]), int(monitor["start_time"]), SIGKILL)
    except (KeyError, ValueError, TypeError) as error:
        raise PodError(
            f"kill the monitor of pod {pod.uuid}: monitor.json is damaged: {error!r}"
        ) from None
    except HostError:
        return False
