"""A pod that is made whole, or not at all."""

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
    """A pod in the phase ``prepare``, whose lock is held, with what ``fill`` puts into it.

    When that fails, nothing of the pod stays.  Raises HostError, PodError, and what ``fill``
    raises, but HostError for OSError.
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
