"""Remove an app from a mutable pod (``app rm``)."""

from __future__ import annotations

import posix

from ociruntime.base.errors import HostError, PodError
from ociruntime.pods.manifest.build import is_mutable
from ociruntime.pods.store.app_states import choose_app
from ociruntime.pods.store.control import ask
from ociruntime.pods.store.lock import open_directory
from ociruntime.pods.store.manifest_file import read_manifest, write_manifest
from ociruntime.pods.store.mutation import manifest_lock
from ociruntime.pods.store.removal import remove_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ociruntime.pods.store.pod import Pod


def remove_app(pod: Pod, wanted: str, seconds: float) -> None:
    """Stop the app if it is running, then remove its files, its log and its manifest entry.

    Raises PodError if the pod is immutable or has no such app; HostError.
    """
    with manifest_lock(pod):
        manifest = read_manifest(pod)
        if not is_mutable(manifest):
            raise PodError(f"pod {pod.uuid} is immutable", "only pods of `app sandbox` change")
        name = choose_app(pod, wanted)
        if pod.refresh() == "running":
            # The monitor unmounts the app's files: they are mounted in its mount namespace.
            ask(pod, {"op": "rm", "app": name, "seconds": seconds})
        remove_files(pod, name)
        # Remove the entry last: after a crash before this line, removal can be repeated.
        manifest["apps"] = [entry for entry in manifest["apps"] if entry["name"] != name]
        write_manifest(pod, manifest)


def remove_files(pod: Pod, name: str, volumes: Sequence[str] = ()) -> None:
    """Remove all files of an app, except its manifest entry, and the given volumes of the pod.

    Raises HostError.
    """
    try:
        _remove(pod, "apps", lambda found: found == name)
        _remove(pod, "volumes", lambda found: found in volumes)
        log = f"{name}.log"
        _remove(pod, "logs", lambda found: found == log or found.startswith(f"{log}."))
    except OSError as error:
        raise HostError(f'remove app "{name}" of pod {pod.uuid}', error) from None


def _remove(pod: Pod, part: str, is_meant: Callable[[str], bool]) -> None:
    """Remove the matching entries of the pod's directory ``part``.  Raises OSError."""
    fd = open_directory(part, pod.fd)
    try:
        for found in posix.listdir(fd):
            if is_meant(found):
                remove_tree(fd, found)
    finally:
        posix.close(fd)
