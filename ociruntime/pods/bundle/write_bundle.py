"""Write the OCI bundle of an app: mount its root filesystem and write its ``config.json``."""

from __future__ import annotations

import fcntl
import os
from typing import Any

from ociruntime.base import json_files
from ociruntime.base.errors import HostError
from ociruntime.base.files import is_there, replace_file
from ociruntime.base.json_text import dump
from ociruntime.base.trusted_directories import make_directory
from ociruntime.pods.bundle.app_config import AppFacts, app_config
from ociruntime.pods.bundle.private_mount_namespace import mount
from ociruntime.pods.manifest import isolators
from ociruntime.pods.manifest.build_manifest import app_entry
from ociruntime.pods.manifest.flavours import flavour
from ociruntime.pods.manifest.oci_resources import skipped


def write_bundle(pod_path: str, app_name: str, namespaces: dict[str, str]) -> list[str]:
    """Mount the root filesystem of ``app_name`` and write ``apps/NAME/bundle/config.json``.

    ``namespaces`` maps types of namespaces (``pid``, ``network``, ``ipc``, ``uts``, ``user``) to
    the paths of the pod's namespaces.  If a type is missing, the app stays in the OCI runtime's
    namespace of that type.  The root filesystem is mounted in the caller's mount namespace.
    Returns warnings about limits that the host cannot enforce.  Raises PodError if a setting is
    invalid, HostError if a file or mount cannot be created.
    """
    from ociruntime.pods.bundle.overlay import mount_rootfs

    settings = json_files.read(f"{pod_path}/runtime-config")
    manifest = json_files.read(f"{pod_path}/pod")
    home = f"{pod_path}/apps/{app_name}"
    image = json_files.read(f"{home}/image.json")
    entry = app_entry(manifest, app_name)
    facts = AppFacts(os.path.basename(pod_path), f"{home}/bundle/rootfs")
    facts.flavour = flavour(settings.get("flavor", "oci"))
    tree = f"{settings['directory']}/cas/tree/{image['tree']}/rootfs"
    mount_rootfs(home, tree, settings, namespaces.get("user"))
    # Look up users in the pristine image: the app may have changed its own passwd file.
    _fill(facts, tree if is_there(tree) else facts.rootfs, pod_path, entry, settings)
    facts.shared_memory = "/dev/shm" if settings.get("ipc") == "parent" else f"{pod_path}/shm"
    _find_volumes(facts, pod_path, manifest)
    _find_devices(facts, entry)
    add_mtab(facts.rootfs, facts.private_users[0] if facts.private_users else 0)
    facts.namespaces = namespaces
    facts.environment = json_files.read(f"{home}/env")
    if facts.private_users:
        _make_reachable(facts, app_name)
    config = app_config(manifest, app_name, image.get("config") or {}, facts)
    text = dump(config, 1) + "\n"
    replace_file(f"{home}/bundle/config.json", text.encode(), 0o600)
    if not facts.flavour.confined or facts.controllers is None:
        return []
    return skipped(entry["app"].get("isolators", []), facts.controllers)


def _fill(
    facts: AppFacts, tree: str, pod_path: str, entry: dict[str, Any], settings: dict[str, Any]
) -> None:
    """Set the attributes of ``facts`` that depend on the host, the app and the pod's settings.

    ``entry`` is the app's entry in the pod's manifest, ``settings`` the pod's runtime-config.  The
    app's user and groups are looked up in the root filesystem ``tree``.  Raises PodError if the
    user or a group is not found, HostError if a file cannot be read.
    """
    from ociruntime.base.capabilities import CAPABILITIES
    from ociruntime.pods.bundle.host_facts import controllers, filesystems, last_capability
    from ociruntime.pods.bundle.users import account

    app = entry["app"]
    user = account(
        tree,
        str(app.get("user") or "0"),
        str(app.get("group") or ""),
        list(app.get("supplementaryGIDs", [])),
    )
    facts.uid, facts.gid, facts.additional_gids = user.uid, user.gid, user.additional
    facts.machine = os.uname().machine
    facts.cgroup_namespace = is_there("/proc/self/ns/cgroup")
    # A virtual machine has another kernel, with all controllers.
    facts.controllers = None if facts.flavour.name == "kvm" else controllers()
    facts.filesystems = (
        ("/sys/fs",)
        if facts.flavour.name == "kvm"
        else filesystems(cgroups=not facts.cgroup_namespace)
    )
    facts.capabilities = CAPABILITIES[: last_capability() + 1]
    facts.insecure = frozenset(settings.get("insecure", ()))
    facts.hostname = settings.get("hostname") or ""
    facts.domainname = settings.get("domainname") or ""
    users = settings.get("private_users")
    facts.private_users = (users["shift"], users["count"]) if users else None
    streams = app.get("streams", {})
    facts.terminal = "tty" in streams.values() or streams.get("stdin") == "interactive"
    if facts.flavour.confined:
        facts.binds = _etc_files(pod_path, facts.rootfs, settings)
    path = os.path.join(os.path.dirname(__file__), "seccomp.json")
    facts.seccomp = json_files.read(path)


def _find_volumes(facts: AppFacts, pod_path: str, manifest: dict[str, Any]) -> None:
    """Set ``facts.volumes`` to the host paths of the volumes in ``manifest``.

    For volumes that are devices, also set ``facts.devices``.  Raises HostError if a volume's path
    does not exist.
    """
    import stat

    for volume in manifest.get("volumes", []):
        name = volume["name"]
        source = volume.get("source") or f"{pod_path}/volumes/{name}"
        facts.volumes[name] = source
        try:
            status = os.stat(source)
        except OSError as error:
            raise HostError(f'mount volume "{name}": open "{source}"', error) from error
        for kind, test in (("b", stat.S_ISBLK), ("c", stat.S_ISCHR)):
            if volume["kind"] == "host" and test(status.st_mode):
                facts.devices[name] = (kind, os.major(status.st_rdev), os.minor(status.st_rdev))


def _find_devices(facts: AppFacts, entry: dict[str, Any]) -> None:
    """Set ``facts.host_devices`` to the app's host devices; raise PodError if one is missing.

    A privileged app gets all devices of the host.  Does nothing for flavour fly.
    """
    from ociruntime.pods.bundle import host_devices

    if not facts.flavour.confined:
        return
    for device in entry.get("devices", []):
        facts.host_devices += host_devices.find_devices(
            device["source"], device["path"], device["access"]
        )
    if isolators.value_of(entry["app"].get("isolators", []), isolators.PRIVILEGED):
        known = {device["path"] for device in facts.host_devices}
        devices = host_devices.all_devices()
        facts.host_devices += [device for device in devices if device["path"] not in known]


def _make_reachable(facts: AppFacts, app_name: str) -> None:
    """Bind-mount the host paths in ``facts`` below a directory that the pod's root user can enter.

    Replaces the paths in ``facts`` with the new paths.  Raises HostError if a mount fails.
    """
    facts.rootfs = reachable(f"app-{app_name}", facts.rootfs)
    for name, source in facts.volumes.items():
        facts.volumes[name] = reachable(f"volume-{name}", source)
    facts.shared_memory = reachable("shm", facts.shared_memory)
    facts.binds = [
        (reachable(os.path.basename(source), source), target) for source, target in facts.binds
    ]


def _etc_files(pod_path: str, rootfs: str, settings: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the bind mounts of the pod's hostname, resolv.conf and hosts files in /etc.

    Each is a pair (source, destination).  If the image has its own hosts file, the pod's hosts file
    is left out, unless the pod has --hosts-entry or is on a network with names.
    """
    from ociruntime.base.open_below_root import open_inside
    from ociruntime.pods.bundle.pod_network import has_names

    hosts = settings.get("hosts") or {}
    binds = [
        (f"{pod_path}/{name}", f"/etc/{name}")
        for name in ("hostname", "resolv.conf")
        if is_there(f"{pod_path}/{name}")
    ]
    if not is_there(f"{pod_path}/hosts"):
        return binds
    root = os.open(rootfs, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not hosts.get("entries") and hosts.get("mode") != "host":
            os.close(open_inside(root, "etc/hosts", os.O_PATH))
            if not has_names(pod_path):
                return binds
    except OSError:
        pass  # the image has no /etc/hosts
    finally:
        os.close(root)
    return [*binds, (f"{pod_path}/hosts", "/etc/hosts")]


def add_mtab(rootfs: str, owner: int) -> None:
    """Create the symbolic link /etc/mtab to /proc/self/mounts in ``rootfs``, if it is missing.

    ``owner`` is the host uid and gid of the link.  Errors are ignored: few programs read the file.
    """
    from ociruntime.base.open_below_root import open_inside

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
# An OCI runtime opens the root filesystem and the sources of mounts as the pod's root user, an
# unprivileged user of the host, which may lack access to their parent directories.  So they are
# bind-mounted below a directory with mode 711, in the monitor's mount namespace; on the host the
# directory stays empty.

REACHABLE = "/run/ocipod-users"
_MS_BIND, _MS_REC = 1 << 12, 1 << 14


def reachable(name: str, source: str) -> str:
    """Bind-mount ``source``, a file or directory, at REACHABLE/``name``; return the new path.

    The pod's root user can open the new path, even if it has no access to the parent directories of
    ``source``.  Raises HostError if the mount fails.
    """
    target = f"{REACHABLE}/{name}"
    try:
        _mount_reachable()
        source_status, status = os.stat(source), _status(target)
        if status is not None and os.path.samestat(source_status, status):
            return target
        if os.path.isdir(source):
            os.makedirs(target, 0o711, exist_ok=True)
        elif status is None:
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise HostError(f'create the mount point "{target}"', error) from error
    mount(source, target, "", _MS_BIND | _MS_REC)
    return target


def _mount_reachable() -> None:
    """Create the directory REACHABLE, and mount a tmpfs on it unless it is a mount point."""
    make_directory(REACHABLE, 0o711, "directory of pods with user namespaces")
    fd = os.open(REACHABLE, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # The monitor creates apps concurrently: the lock lets only one process mount the tmpfs.
        fcntl.flock(fd, fcntl.LOCK_EX)
        if os.stat(REACHABLE).st_dev == os.stat(os.path.dirname(REACHABLE)).st_dev:
            mount("ocipod", REACHABLE, "tmpfs", 0, "mode=711,size=1m")
    finally:
        os.close(fd)


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None
