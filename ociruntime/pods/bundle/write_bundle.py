"""Write an app's bundle, just before the pod's monitor creates the container."""

from __future__ import annotations

import fcntl
import os
from typing import Any

from ociruntime.base import json_files
from ociruntime.base.errors import HostError
from ociruntime.base.files import replace_file
from ociruntime.base.json_text import dump
from ociruntime.base.trusted import make_directory
from ociruntime.pods.bundle.app_config import AppPlace, app_config
from ociruntime.pods.bundle.own_mounts import mount
from ociruntime.pods.manifest.build import app_entry
from ociruntime.pods.manifest.flavours import flavour
from ociruntime.pods.manifest.oci_resources import skipped


def write_bundle(pod_path: str, app_name: str, namespaces: dict[str, str]) -> list[str]:
    """Mount the root filesystem of ``app_name`` and write ``apps/NAME/bundle/config.json``.

    ``namespaces`` maps ``pid``, ``network``, ``ipc``, ``uts`` and ``user`` to the paths of the
    pod's namespaces; missing ones are shared with the caller.  Call it in the mount namespace that
    is to have the overlay.  Returns warnings.  Raises PodError, HostError.
    """
    from ociruntime.pods.bundle.overlay import mount_rootfs

    settings = json_files.read(f"{pod_path}/runtime-config")
    manifest = json_files.read(f"{pod_path}/pod")
    home = f"{pod_path}/apps/{app_name}"
    image = json_files.read(f"{home}/image.json")
    entry = app_entry(manifest, app_name)
    place = AppPlace(os.path.basename(pod_path), f"{home}/bundle/rootfs")
    place.flavour = flavour(settings.get("flavor", "oci"))
    tree = f"{settings['directory']}/cas/tree/{image['tree']}/rootfs"
    mount_rootfs(home, tree, settings, namespaces.get("user"))
    # Look up users in the pristine image: the app may have changed its own passwd file.
    _fill(place, tree if os.path.isdir(tree) else place.rootfs, pod_path, entry, settings)
    place.shared_memory = "/dev/shm" if settings.get("ipc") == "parent" else f"{pod_path}/shm"
    _find_volumes(place, pod_path, manifest)
    add_mtab(place.rootfs, place.private_users[0] if place.private_users else 0)
    place.namespaces = namespaces
    place.environment = json_files.read(f"{home}/env")
    if place.private_users:
        _make_reachable(place, app_name)
    config = app_config(manifest, app_name, image.get("config") or {}, place)
    text = dump(config, 1) + "\n"
    replace_file(f"{home}/bundle/config.json", text.encode(), 0o600)
    if not place.flavour.confined or place.controllers is None:
        return []
    return skipped(entry["app"].get("isolators", []), place.controllers)


def _fill(
    place: AppPlace, tree: str, pod_path: str, entry: dict[str, Any], settings: dict[str, Any]
) -> None:
    """Fill in facts about the host and the image; users are looked up in ``tree``."""
    from ociruntime.base.linux import CAPABILITIES
    from ociruntime.pods.bundle.host_facts import controllers, last_capability
    from ociruntime.pods.bundle.users import account

    app = entry["app"]
    who = account(
        tree,
        str(app.get("user") or "0"),
        str(app.get("group") or ""),
        list(app.get("supplementaryGIDs", [])),
    )
    place.uid, place.gid, place.additional_gids = who.uid, who.gid, who.additional
    place.machine = os.uname().machine
    place.cgroup_namespace = os.path.exists("/proc/self/ns/cgroup")
    # The kernel of a virtual machine has all controllers.
    place.controllers = None if place.flavour.name == "kvm" else controllers()
    place.capabilities = CAPABILITIES[: last_capability() + 1]
    place.insecure = frozenset(settings.get("insecure", ()))
    place.hostname = settings.get("hostname") or ""
    users = settings.get("private_users")
    place.private_users = (users["shift"], users["count"]) if users else None
    streams = app.get("streams", {})
    place.terminal = "tty" in streams.values() or streams.get("stdin") == "interactive"
    if place.flavour.confined:
        place.binds = _etc_files(pod_path, place.rootfs, settings)
    path = os.path.join(os.path.dirname(__file__), "seccomp.json")
    place.seccomp = json_files.read(path)


def _find_volumes(place: AppPlace, pod_path: str, manifest: dict[str, Any]) -> None:
    """Set the paths of the pod's volumes, and which are devices.  Raises HostError."""
    import stat

    for volume in manifest.get("volumes", []):
        name = volume["name"]
        source = volume.get("source") or f"{pod_path}/volumes/{name}"
        place.volumes[name] = source
        try:
            status = os.stat(source)
        except OSError as error:
            raise HostError(f'find the volume "{name}", {source}', error) from error
        for kind, test in (("b", stat.S_ISBLK), ("c", stat.S_ISCHR)):
            if volume["kind"] == "host" and test(status.st_mode):
                place.devices[name] = (kind, os.major(status.st_rdev), os.minor(status.st_rdev))


def _make_reachable(place: AppPlace, app_name: str) -> None:
    """Replace paths by ones that the pod's root user can enter.  Raises HostError."""
    place.rootfs = reachable(f"app-{app_name}", place.rootfs)
    for name, source in place.volumes.items():
        place.volumes[name] = reachable(f"volume-{name}", source)
    place.shared_memory = reachable("shm", place.shared_memory)
    place.binds = [
        (reachable(os.path.basename(source), source), target) for source, target in place.binds
    ]


def _etc_files(pod_path: str, rootfs: str, settings: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the binds of the pod's hostname, resolv.conf and hosts.

    An image's own hosts file is kept if the pod has nothing to add.
    """
    from ociruntime.pods.bundle.users import open_inside

    hosts = settings.get("hosts") or {}
    found = [
        (f"{pod_path}/{name}", f"/etc/{name}")
        for name in ("hostname", "resolv.conf")
        if os.path.exists(f"{pod_path}/{name}")
    ]
    if not os.path.exists(f"{pod_path}/hosts"):
        return found
    root = os.open(rootfs, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not hosts.get("entries") and hosts.get("mode") != "host":
            os.close(open_inside(root, "etc/hosts", os.O_PATH))
            return found
    except OSError:
        pass  # the image does not have one
    finally:
        os.close(root)
    return [*found, (f"{pod_path}/hosts", "/etc/hosts")]


def add_mtab(rootfs: str, owner: int) -> None:
    """Link ``/etc/mtab`` to /proc/self/mounts if the image has none.

    An image's own file stays, and an image without ``/etc`` gets none.
    """
    from ociruntime.pods.bundle.users import open_inside

    root = os.open(rootfs, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        etc = open_inside(root, "etc", os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.symlink("../proc/self/mounts", "mtab", dir_fd=etc)
            os.chown("mtab", owner, owner, dir_fd=etc, follow_symlinks=False)
        finally:
            os.close(etc)
    except OSError:
        pass
    finally:
        os.close(root)


# Make host paths accessible to a pod with a user namespace.
#
# An OCI runtime opens the root filesystem and the sources of mounts as the pod's root user, who
# cannot enter directories of the host's root.  So they are bind-mounted below a directory that
# everybody may enter.  This happens in the monitor's mount namespace; on the host the directory
# stays empty.

PLACE = "/run/ocipod-users"
_MS_BIND, _MS_REC = 1 << 12, 1 << 14


def reachable(name: str, source: str) -> str:
    """Bind-mount ``source``, a file or a directory, as ``name``; its new path.

    Raises HostError.
    """
    target = f"{PLACE}/{name}"
    try:
        _make_place()
        there, here = os.stat(source), _status(target)
        if here is not None and (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino):
            return target
        if os.path.isdir(source):
            os.makedirs(target, 0o711, exist_ok=True)
        elif here is None:
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise HostError(f"make {target}", error) from error
    mount(source, target, "", _MS_BIND | _MS_REC)
    return target


def _make_place() -> None:
    """Create the directory and mount a private tmpfs there."""
    make_directory(PLACE, 0o711, "directory of pods with user namespaces")
    fd = os.open(PLACE, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Apps are created concurrently, and must not mount it twice.
        fcntl.flock(fd, fcntl.LOCK_EX)
        if os.stat(PLACE).st_dev == os.stat(os.path.dirname(PLACE)).st_dev:
            mount("ocipod", PLACE, "tmpfs", 0, "mode=711,size=1m")
    finally:
        os.close(fd)


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None
