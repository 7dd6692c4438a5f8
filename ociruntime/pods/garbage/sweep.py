"""Clean up after an exited pod: stale state on the host, and its directory.

All of it can be repeated, in part or as a whole: after a reboot only the directory is left, and
after a failed attempt the remainder.
"""

from __future__ import annotations

import posix

from ociruntime.base.errors import HostError, PodError, reason
from ociruntime.base.fault import fault
from ociruntime.base.files import sync_directory
from ociruntime.base.mountinfo import OWN, own_mountinfo, parse_mountinfo
from ociruntime.pods.garbage.stale_cgroups import remove_cgroups
from ociruntime.pods.garbage.stale_containers import delete_containers
from ociruntime.pods.store import pod_cgroup
from ociruntime.pods.store.manifest_file import MANIFEST, RUNTIME_CONFIG, read_object
from ociruntime.pods.store.pod import phase_path
from ociruntime.pods.store.removal import remove_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ociruntime.pods.store.pod import Pod

NET_INFO = "net-info.json"

# Remove these last, in this order: what a repeated attempt needs, and what makes the directory a
# pod.
_LAST = (NET_INFO, RUNTIME_CONFIG, MANIFEST)


def clean_up(pod: Pod) -> list[str]:
    """Undo what the pod left outside its directory; the lock must be ours.

    Returns problems that are harmless.  Raises PodError for those that forbid removing the
    directory: mounts below it, processes that do not end.
    """
    problems = delete_containers(pod.uuid, _runtime(pod))
    left = remove_cgroups(pod_cgroup.directories(_hierarchies(), f"ocipod-{pod.uuid}"))
    if left:
        raise PodError(f"remove the cgroup {left[0]}: its processes do not end")
    _unmount_below(pod.path())
    problems += _leave_networks(pod)
    return problems


def remove(pod: Pod) -> None:
    """Remove the directory of a pod after ``clean_up``, root filesystems first.

    The manifest goes last, so that a repeated attempt still finds the pod.
    Raises PodError.
    """
    place = f"/proc/self/fd/{pod.fd}"
    try:
        first = [name for name in posix.listdir(place) if name not in _LAST]
        for name in sorted(first, key=lambda name: name != "apps"):
            remove_tree(pod.fd, name)
        fault("gc.sweep.before-manifest")
        for name in _LAST:
            remove_tree(pod.fd, name)
        posix.rmdir(pod.path())
        sync_directory(phase_path(pod.directory, pod.phase))
    except OSError as error:
        raise PodError(f"remove {_named(error, pod)}: {reason(error)}") from None


def _named(error: OSError, pod: Pod) -> str:
    if not error.filename:
        return pod.path()
    name = error.filename
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)


def _runtime(pod: Pod) -> str:
    try:
        config: dict[str, Any] = read_object(pod, RUNTIME_CONFIG) or {}
    except (PodError, HostError):
        config = {}
    return str(config.get("runtime") or "ociruntime")


def _hierarchies() -> list[str]:
    try:
        return pod_cgroup.hierarchies()
    except OSError as error:
        raise HostError(f"read {OWN}", error) from None


def mountinfo() -> str:
    """Return the mounts of this mount namespace.  Raises HostError."""
    try:
        return own_mountinfo()
    except OSError as error:
        raise HostError(f"read {OWN}", error) from None


def _unmount_below(path: str) -> None:
    """Unmount everything below ``path``; not busy, as the pod's programs have ended."""
    from ociruntime._shim import ffi, lib

    for target in mounts_below(path, mountinfo()):
        lib.oci_detach_mount(ffi.new("char[]", target.encode("utf-8", "surrogateescape")))
    left = mounts_below(path, mountinfo())
    if left:
        raise PodError(f"{left[0]} cannot be unmounted")


def mounts_below(path: str, mountinfo: str) -> list[str]:
    """Return the mount points at and below ``path`` in the text of a mountinfo; last one first."""
    targets = [mount.target for mount in parse_mountinfo(mountinfo)]
    return [each for each in targets if f"{each}/".startswith(f"{path}/")][::-1]


def _leave_networks(pod: Pod) -> list[str]:
    try:
        info = read_object(pod, NET_INFO)
    except (PodError, HostError) as failure:
        return [str(failure)]
    if info is None:
        return []
    from ociruntime.pods.net.networks import tear_down

    return [f"leave the networks: {problem}" for problem in tear_down(info)]
