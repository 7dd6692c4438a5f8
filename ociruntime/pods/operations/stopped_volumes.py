"""Mount the volumes of a stopped app in a private mount namespace, to copy files from and to them.

The app's program may have put links at the mount points, and programs of other apps may change a
volume that contains a mount point at any moment.  So each mount point is resolved with the app's
root directory as root, and what was opened is mounted on.
"""

from __future__ import annotations

import os
import stat
from typing import Any

from ociruntime.base.errors import HostError, ImageError
from ociruntime.base.open_below_root import open_inside
from ociruntime.images.model.image_limits import MOST, Budget, Limits
from ociruntime.images.unpack.tree_paths import Inside, Made
from ociruntime.pods.bundle.app_config import AppFacts, volume_mounts
from ociruntime.pods.bundle.private_mount_namespace import mount
from ociruntime.pods.manifest.build_manifest import app_entry
from ociruntime.pods.manifest.flavours import flavour
from ociruntime.pods.store.manifest_file import read_manifest
from ociruntime.pods.store.pod import Pod

_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_REC = 1 << 0, 1 << 5, 1 << 12, 1 << 14
_PATH = os.O_PATH | os.O_CLOEXEC


def mount_volumes(pod: Pod, app: str, settings: dict[str, Any], root: int, limits: Limits) -> None:
    """Mount the volumes of ``app`` below its root directory, the descriptor ``root``.

    This process must be in a private mount namespace and in the pod's directory; ``settings`` is
    the pod's runtime-config.  A volume is skipped if its source is missing or its mount point is
    unsuitable, so that the app's other files remain accessible.  Raises HostError, PodError.
    """
    manifest = read_manifest(pod)
    facts = AppFacts(pod.uuid, "")
    facts.flavour = flavour(settings.get("flavor") or "oci")
    for volume in manifest["volumes"]:
        # Only a relative path leads to the pod in this mount namespace.
        facts.volumes[volume["name"]] = volume.get("source") or f"volumes/{volume['name']}"
    for one in volume_mounts(manifest, app_entry(manifest, app), facts):
        try:
            source = os.open(one["source"], _PATH)
        except OSError:
            continue
        try:
            _mount(source, root, one, None if settings.get("private_users") else limits)
        finally:
            os.close(source)


def _mount(source: int, root: int, one: dict[str, Any], limits: Limits | None) -> None:
    target = _mount_point(source, root, one["destination"], limits)
    if target < 0:
        return
    recursive = _MS_REC if "rbind" in one["options"] else 0
    try:
        mount(f"/proc/self/fd/{source}", f"/proc/self/fd/{target}", "", _MS_BIND | recursive)
    finally:
        os.close(target)
    if "ro" in one["options"]:
        _make_read_only(source, root, one["destination"])


def _mount_point(source: int, root: int, path: str, limits: Limits | None) -> int:
    """Open the mount point ``path`` below ``root`` for ``source``, and return a descriptor.

    With ``limits``, a missing mount point is created if ``source`` is a directory.  Returns -1 if
    it is missing, or if only one of mount point and ``source`` is a directory.
    """
    is_directory = stat.S_ISDIR(os.fstat(source).st_mode)
    try:
        try:
            target = open_inside(root, path, os.O_PATH)
        except FileNotFoundError:
            if limits is None or not is_directory:
                return -1
            budget = Budget(limits, lambda: (MOST, MOST))
            inside = Inside(root, budget)
            try:
                inside.directory(os.fsencode(path).split(b"/"), Made(budget))
            finally:
                inside.close()
            target = open_inside(root, path, os.O_PATH)
    except (OSError, ImageError):
        return -1
    if stat.S_ISDIR(os.fstat(target).st_mode) != is_directory:
        os.close(target)
        return -1
    return target


def _make_read_only(source: int, root: int, path: str) -> None:
    """Make the bind mount of ``source`` at ``path`` below ``root`` read-only.

    Raises HostError, also if something else is mounted there.
    """
    action = f'mount a volume read-only at "{path}"'
    try:
        made = open_inside(root, path, os.O_PATH)
    except OSError as error:
        raise HostError(action, error) from None
    try:
        # A program may replace a directory above the mount point: remount nothing but the volume.
        if not os.path.samestat(os.fstat(made), os.fstat(source)):
            raise HostError(action, OSError(116, "it was moved meanwhile"))
        mount("", f"/proc/self/fd/{made}", "", _MS_REMOUNT | _MS_BIND | _MS_RDONLY)
    finally:
        os.close(made)
