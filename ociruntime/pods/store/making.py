"""Create a pod completely or not at all."""

from __future__ import annotations

import posix

from ociruntime.base.errors import HostError
from ociruntime.pods.store.phases import new_pod
from ociruntime.pods.store.removal import discard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ociruntime.pods.store.pod import Pod

PARTS = ("apps", "logs", "volumes")


def make_pod(directory: str, fill: Callable[[Pod], None]) -> Pod:
    """Return a pod in phase ``prepare``, locked by us, with the files that ``fill`` creates.

    On failure the pod is removed again.  Raises HostError (also for an OSError of ``fill``),
    PodError, and what ``fill`` raises.
    """
    pod = new_pod(directory)
    try:
        for part in PARTS:
            posix.mkdir(f"{pod.path()}/{part}", 0o750)
        fill(pod)
    except BaseException as error:
        discard(pod)
        if isinstance(error, OSError):
            raise HostError(f"prepare pod {pod.uuid}", error) from error
        raise
    return pod
