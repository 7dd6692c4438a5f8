"""Taking an app out of a mutable pod."""

from __future__ import annotations

from ociruntime.errors import HostError, PodError
from ociruntime.pod.app_states import choose_app
from ociruntime.pod.control import ask
from ociruntime.pod.lock import open_directory
from ociruntime.pod.manifest import is_mutable
from ociruntime.pod.manifest_file import read_manifest, write_manifest
from ociruntime.pod.mutation import manifest_lock
from ociruntime.pod.removal import remove_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.pod.pod import Pod


def remove_app(pod: Pod, wanted: str, seconds: float) -> None:
    """Stop an app if it runs, remove its files, its log and its entry in the manifest.

    Raises PodError: the pod is immutable, there is no such app; HostError.
    """
    with manifest_lock(pod):
        manifest = read_manifest(pod)
        if not is_mutable(manifest):
            raise PodError(f"pod {pod.uuid} is immutable", "only pods of `app sandbox` change")
        name = choose_app(pod, wanted)
        if pod.refresh() == "running":
            # Its files are mounted in the monitor's mount namespace: it unmounts them.
            ask(pod, {"op": "rm", "app": name, "seconds": seconds})
        remove_files(pod, name)
        # The entry goes last: after a crash here it can be removed again.
        manifest["apps"] = [entry for entry in manifest["apps"] if entry["name"] != name]
        write_manifest(pod, manifest)


def remove_files(pod: Pod, name: str) -> None:
    """All that belongs to an app but its entry in the manifest.  Raises HostError."""
    import os

    place = f"/proc/self/fd/{pod.fd}"
    try:
        fd = open_directory("apps", pod.fd)
        try:
            remove_tree(fd, name)
        finally:
            os.close(fd)
    except OSError as error:
        raise HostError(f'remove app "{name}" of pod {pod.uuid}', error) from None
    for file in os.listdir(f"{place}/logs"):
        if file == f"{name}.log" or file.startswith(f"{name}.log."):
            os.unlink(f"{place}/logs/{file}")
