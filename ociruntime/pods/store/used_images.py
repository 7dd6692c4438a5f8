"""Find the images and unpacked images that pods use: ``image gc`` and ``image rm`` keep them."""

from __future__ import annotations

import os

from ociruntime.base.errors import HostError, PodError, RuntimeFailure
from ociruntime.pods.store.manifest_file import read_object
from ociruntime.pods.store.phases import each_pod
from ociruntime.pods.store.pod import EMBRYO, PHASES, Pod

# Phases in which a pod uses images: all but embryo, in which it has no files yet.
_HOLDING = tuple(phase for phase in PHASES if phase != EMBRYO)


def used_images(directory: str) -> set[str]:
    """Return the ids of the images that pods use.  Raises PodError if a pod cannot be read."""
    return _used(directory, "id")


def used_trees(directory: str) -> set[str]:
    """Return the ids of the trees (unpacked images) that pods use.

    Raises PodError if a pod cannot be read.
    """
    return _used(directory, "tree")


def running_trees(directory: str) -> set[str]:
    """Return the ids of the trees (unpacked images) that running pods may have mounted.

    Raises PodError if a pod cannot be read.
    """
    return _used(directory, "tree", running=True)


def _used(directory: str, member: str, *, running: bool = False) -> set[str]:
    ids: set[str] = set()
    problems: list[str] = []
    try:
        for pod in each_pod(directory, _HOLDING, problems):
            with pod:
                if not running or pod.state == "running":
                    ids.update(_ids_of_pod(pod, member))
    except RuntimeFailure as failure:
        raise _unknown(str(failure)) from None
    # Ignore problems with files that are not pods; a pod that cannot be opened may use images.
    unread = [line for line in problems if line.startswith("open pod ")]
    if unread:
        raise _unknown(unread[0])
    return ids


def _unknown(reason: str) -> PodError:
    return PodError(f"determine which images pods use: {reason}")


def _ids_of_pod(pod: Pod, member: str) -> set[str]:
    try:
        apps = os.listdir(f"/proc/self/fd/{pod.fd}/apps")
    except FileNotFoundError:
        return set()
    except OSError as error:
        raise HostError(f"list the apps of pod {pod.uuid}", error) from None
    ids: set[str] = set()
    for app in apps:
        # An app without this file is being created or removed, and needs no image.
        image = read_object(pod, f"apps/{app}/image.json")
        value = image.get(member) if image is not None else None
        if isinstance(value, str) and value:
            ids.add(value)
    return ids
