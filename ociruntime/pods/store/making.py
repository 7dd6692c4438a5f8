"""Create a pod completely or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable

from ociruntime.base.errors import HostError
from ociruntime.pods.store.phases import new_pod
from ociruntime.pods.store.pod import Pod
from ociruntime.pods.store.removal import discard

PARTS = ("apps", "logs", "volumes")


def make_pod(directory: str, fill: Callable[[Pod], None]) -> Pod:
    """Return a pod in phase ``prepare``, locked by us, with the files that ``fill`` creates.

    On failure the pod is removed again.  Raises HostError (also for an OSError of ``fill``),
    PodError, and what ``fill`` raises.
    """
    pod = new_pod(directory)
    try:
        for part in PARTS:
            os.mkdir(f"{pod.path()}/{part}", 0o750)
        fill(pod)
    except BaseException as error:
        discard(pod)
        if isinstance(error, OSError):
            raise HostError(f"prepare pod {pod.uuid}", error) from error
        raise
    return pod
