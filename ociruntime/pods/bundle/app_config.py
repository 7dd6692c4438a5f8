"""Compile an app of a pod's manifest into the ``config.json`` of its container.

The config works with any OCI runtime.  The functions are pure: facts about the host and the image
are passed to them in ``AppFacts``.
"""

from __future__ import annotations

from typing import Any

from ociruntime.base.errors import PodError
from ociruntime.pods.bundle.default_confinement import (
    DEFAULT_CAPABILITIES,
    MASKED_PATHS,
    READONLY_PATHS,
)
from ociruntime.pods.manifest import isolators, kernel_settings, oci_resources, seccomp_isolators
from ociruntime.pods.manifest.build_manifest import app_entry
from ociruntime.pods.manifest.environment import with_term
from ociruntime.pods.manifest.flavours import FLAVOURS, Flavour, Mount
from ociruntime.pods.manifest.tmpfs_and_devices import tmpfs_mount

Json = dict[str, Any]


SPEC_VERSION = "1.0.2"

IMAGE_ANNOTATION = "org.opencontainers.image."
_DEVICE_MEMBERS = ("path", "type", "major", "minor", "fileMode", "uid", "gid")
_RULE_MEMBERS = ("type", "major", "minor", "access")
_SHARED_MEMORY = ("bind", "rprivate", "nosuid", "noexec", "nodev")


class AppFacts:
    """Facts about the host and the image that an app's config depends on.

    The config also depends on the pod's manifest.

    ``namespaces`` maps types of namespaces (``pid``, ``network``, ``ipc``, ``uts``, ``user``) to
    the paths of the pod's namespaces.  If a type is missing, the app stays in the OCI runtime's
    namespace of that type.  ``shared_memory`` is the host directory to mount at ``/dev/shm``, ""
    for a private tmpfs.  ``volumes`` maps the names of volumes to host paths.  ``devices`` maps the
    name of each volume that is a device to (``b`` or ``c``, major, minor).  ``host_devices`` lists
    the devices that the app may use, in the form that ``host_devices.find_devices`` returns.
    ``binds`` lists the files to bind-mount, such as the pod's hosts file, as pairs (host path,
    path in the app).  ``private_users`` is (first host id, number of ids) of the pod's user
    namespace, or None if the pod has no user namespace.
    """

    __slots__ = (
        "additional_gids",
        "binds",
        "capabilities",
        "cgroup_namespace",
        "controllers",
        "devices",
        "domainname",
        "environment",
        "filesystems",
        "flavour",
        "gid",
        "host_devices",
        "hostname",
        "insecure",
        "machine",
        "namespaces",
        "private_users",
        "rootfs",
        "seccomp",
        "shared_memory",
        "terminal",
        "uid",
        "uuid",
        "volumes",
    )

    def __init__(self, uuid: str, rootfs: str) -> None:
        self.uuid = uuid
        self.rootfs = rootfs
        self.flavour: Flavour = FLAVOURS["oci"]
        self.machine = "x86_64"
        self.uid = 0
        self.gid = 0
        self.additional_gids: list[int] = []
        self.environment: dict[str, str] = {}
        self.namespaces: dict[str, str] = {}
        self.shared_memory = ""
        self.cgroup_namespace = True
        self.controllers: frozenset[str] | None = None  # None: all controllers
        self.filesystems: tuple[str, ...] = ()  # paths to mask, besides MASKED_PATHS
        self.volumes: dict[str, str] = {}
        self.devices: dict[str, tuple[str, int, int]] = {}
        self.host_devices: list[Json] = []
        self.binds: list[tuple[str, str]] = []
        self.hostname = ""
        self.domainname = ""
        self.insecure: frozenset[str] = frozenset()
        self.private_users: tuple[int, int] | None = None
        self.terminal = False
        self.capabilities: tuple[str, ...] = ()  # all that the kernel supports, for flavour fly
        self.seccomp: Json = {}  # the default sets, from seccomp.json


def app_config(manifest: Json, app_name: str, image_config: Json, facts: AppFacts) -> Json:
    """Return the ``config.json`` of the app ``app_name`` in ``manifest``.

    ``image_config`` is the OCI configuration of the app's image.  Raises PodError if the manifest
    lacks the app or a volume that the app mounts, or if the app is privileged and the pod has a
    user namespace.
    """
    entry = app_entry(manifest, app_name)
    app = entry["app"]
    confined = facts.flavour.confined
    if _is_privileged(app.get("isolators", []), facts) and facts.private_users:
        raise PodError(
            f'app "{app_name}": a privileged app cannot have a user namespace',
            "omit --private-users",
        )
    granted = _granted(app.get("isolators", []), facts)
    config: Json = {
        "ociVersion": SPEC_VERSION,
        "process": _process(app, facts, granted),
        "root": {"path": facts.rootfs, "readonly": bool(entry.get("readOnlyRootFS"))},
        "mounts": _mounts(manifest, entry, facts),
        "annotations": _annotations(entry, facts, image_config),
        "linux": {
            "namespaces": _namespaces(facts),
            "cgroupsPath": f"/ocipod-{facts.uuid}/{app_name}",
            "resources": _resources(manifest, app.get("isolators", []), facts),
            "maskedPaths": [],
            "readonlyPaths": [],
        },
    }
    linux = config["linux"]
    if facts.hostname and "uts" in facts.namespaces:
        config["hostname"] = facts.hostname
    if facts.private_users:
        first, count = facts.private_users
        maps = [{"containerID": 0, "hostID": first, "size": count}]
        linux["uidMappings"] = linux["gidMappings"] = maps
    if not confined:
        linux["rootfsPropagation"] = "rslave"
        return config
    if facts.host_devices and not facts.private_users:
        linux["devices"] = [
            {name: device[name] for name in _DEVICE_MEMBERS} for device in facts.host_devices
        ]
    sysctls = dict(isolators.sysctls(manifest.get("isolators", [])))
    if facts.domainname and "uts" in facts.namespaces:
        sysctls["kernel.domainname"] = facts.domainname  # runc rejects the member "domainname"
    if sysctls:
        linux["sysctl"] = sysctls
    app_isolators = app.get("isolators", [])
    if "paths" not in facts.insecure and not _is_privileged(app_isolators, facts):
        linux["maskedPaths"] = [*MASKED_PATHS, *facts.filesystems]
        linux["readonlyPaths"] = list(READONLY_PATHS)
    if "seccomp" not in facts.insecure and not _is_unfiltered(app_isolators, facts):
        profile = seccomp_isolators.profile(app_isolators, facts.seccomp, facts.machine, granted)
        if profile is not None:
            linux["seccomp"] = profile
    return config


def _is_privileged(app_isolators: list[Json], facts: AppFacts) -> bool:
    privileged = isolators.value_of(app_isolators, isolators.PRIVILEGED)
    return facts.flavour.confined and bool(privileged)


def _is_unfiltered(app_isolators: list[Json], facts: AppFacts) -> bool:
    """Return whether the app is privileged and its isolators contain no seccomp filter."""
    filters = {isolators.RETAIN_SECCOMP, isolators.REMOVE_SECCOMP}
    if not _is_privileged(app_isolators, facts):
        return False
    return not any(isolator["name"] in filters for isolator in app_isolators)


def _granted(app_isolators: list[Json], facts: AppFacts) -> list[str]:
    """Return the sorted names (``CAP_...``) of the capabilities in the app's bounding set."""
    if not facts.flavour.confined or "capabilities" in facts.insecure:
        return sorted(facts.capabilities or DEFAULT_CAPABILITIES)
    retain = isolators.value_of(app_isolators, isolators.RETAIN_CAPS)
    if retain is not None:
        return sorted({isolators.capability(word) for word in retain["set"]})
    remove = isolators.value_of(app_isolators, isolators.REMOVE_CAPS)
    is_privileged = _is_privileged(app_isolators, facts)
    defaults = sorted(facts.capabilities) if is_privileged else list(DEFAULT_CAPABILITIES)
    if remove is None:
        return defaults
    dropped = {isolators.capability(word) for word in remove["set"]}
    return [name for name in defaults if name not in dropped]


def _process(app: Json, facts: AppFacts, granted: list[str]) -> Json:
    app_isolators = app.get("isolators", [])
    effective = granted if facts.uid == 0 else []
    variables = [f"{name}={value}" for name, value in facts.environment.items()]
    process: Json = {
        "terminal": facts.terminal,
        "user": {"uid": facts.uid, "gid": facts.gid},
        "args": list(app["exec"]),
        "env": with_term(variables) if facts.terminal else variables,
        "cwd": app.get("workingDirectory") or "/",
        "capabilities": {
            "bounding": granted,
            "permitted": effective,
            "effective": effective,
            "inheritable": [],
            "ambient": [],
        },
        "noNewPrivileges": _no_new_privileges(app_isolators, facts),
    }
    if facts.additional_gids:
        process["user"]["additionalGids"] = list(facts.additional_gids)
    score = isolators.value_of(app_isolators, isolators.OOM_SCORE_ADJ)
    if score is not None and facts.flavour.confined:
        process["oomScoreAdj"] = int(score)
    ulimits = isolators.value_of(app_isolators, isolators.ULIMITS)
    if ulimits is not None:
        process["rlimits"] = kernel_settings.rlimits(ulimits["set"])
    return process


def _no_new_privileges(app_isolators: list[Json], facts: AppFacts) -> bool:
    if isolators.value_of(app_isolators, isolators.NO_NEW_PRIVILEGES):
        return True
    # Without no_new_privs, a program with setuid root would gain its privileges under the user's
    # filter, in which system calls that it relies on may fail.
    names = {isolator["name"] for isolator in app_isolators}
    filtered = names & {isolators.RETAIN_SECCOMP, isolators.REMOVE_SECCOMP}
    return bool(filtered) and facts.uid != 0 and facts.flavour.confined


def _namespaces(facts: AppFacts) -> list[Json]:
    joined: list[Json] = [
        {"type": kind, "path": facts.namespaces[kind]}
        for kind in facts.flavour.joined
        if kind in facts.namespaces
    ]
    own = [kind for kind in facts.flavour.own if kind != "cgroup" or facts.cgroup_namespace]
    return joined + [{"type": kind} for kind in own]


def _mounts(manifest: Json, entry: Json, facts: AppFacts) -> list[Json]:
    """Return the member ``mounts`` of the app's ``config.json``, in the order of mounting.

    Kernel filesystems such as /proc come first, then the pod's files such as /etc/resolv.conf, then
    volumes, tmpfs mounts and devices, with parent directories before their subdirectories.
    """
    tmpfs = [tmpfs_mount(row["path"], row.get("options", [])) for row in entry.get("tmpfs", [])]
    replaced = {mount["destination"] for mount in tmpfs}
    mounts = [
        _kernel_mount(*row, facts)
        for row in facts.flavour.mounts
        if _is_possible(row, facts) and row[0] not in replaced
    ]
    if _is_privileged(entry["app"].get("isolators", []), facts):
        mounts = [
            _writable(mount) if mount["destination"].startswith("/sys") else mount
            for mount in mounts
        ]
    user_mounts = volume_mounts(manifest, entry, facts) + tmpfs
    if facts.private_users:
        user_mounts += [
            _mount(device["path"], "bind", device["source"], ["bind", "rprivate"])
            for device in facts.host_devices
        ]
    user_mounts.sort(key=lambda mount: mount["destination"].count("/"))
    taken = {mount["destination"] for mount in user_mounts}
    for source, destination in facts.binds:
        if destination not in taken:
            options = ["bind", "rprivate"]
            mounts.append(_mount(destination, "bind", source, options))
    return mounts + user_mounts


def volume_mounts(manifest: Json, entry: Json, facts: AppFacts) -> list[Json]:
    """Return the OCI bind mounts of an app's volumes, parent directories first.

    Raises PodError if the app mounts a volume that the manifest does not define.
    """
    volumes = {volume["name"]: volume for volume in manifest.get("volumes", [])}
    points = {point["path"]: point for point in entry["app"].get("mountPoints", [])}
    mounts = []
    for mount in entry.get("mounts", []):
        volume = volumes.get(mount["volume"])
        if volume is None:
            raise PodError(
                f'app "{entry["name"]}": mount volume "{mount["volume"]}": not in the manifest'
            )
        mounts.append(_volume_mount(mount, volume, points.get(mount["path"], {}), facts))
    mounts.sort(key=lambda mount: mount["destination"].count("/"))
    return mounts


def _writable(mount: Json) -> Json:
    return mount | {"options": [word for word in mount["options"] if word != "ro"]}


def _is_possible(row: Mount, facts: AppFacts) -> bool:
    if row[1] == "cgroup":
        return (
            facts.cgroup_namespace
        )  # without a namespace, the mount would show the host's cgroups
    # A user namespace cannot mount the host's mqueue, and the host may have none to bind.
    return row[1] != "mqueue" or not _is_of_host("ipc", facts)


def _is_of_host(kind: str, facts: AppFacts) -> bool:
    """Return whether the pod has a user namespace, but uses the host's ``kind`` namespace.

    ``kind`` is an OCI namespace type such as "network".
    """
    return facts.private_users is not None and kind not in facts.namespaces


def _kernel_mount(
    destination: str, kind: str, source: str, options: tuple[str, ...], facts: AppFacts
) -> Json:
    if destination == "/dev/shm" and facts.shared_memory:
        return _mount(destination, "bind", facts.shared_memory, list(_SHARED_MEMORY))
    # sysfs can only be mounted by the owner of the network namespace; bind the host's instead.
    if kind == "sysfs" and _is_of_host("network", facts):
        return _mount(destination, "bind", destination, ["rbind", "rslave", *options])
    return _mount(destination, kind, source, list(options))


def _volume_mount(mount: Json, volume: Json, point: Json, facts: AppFacts) -> Json:
    name = volume["name"]
    recursive = volume.get("recursive")
    if recursive is None:
        recursive = facts.flavour.recursive or volume["kind"] == "empty"
    # The volume's setting takes precedence over the mount's, the mount's over the image's.
    read_only = volume.get("readOnly")
    if read_only is None:
        read_only = mount.get("readOnly", point.get("readOnly", False))
    propagation = volume.get("propagation") or ("rprivate" if recursive else "private")
    options = ["rbind" if recursive else "bind", propagation]
    options.append("ro" if read_only else "rw")
    return _mount(mount["path"], "bind", facts.volumes[name], options)


def _mount(destination: str, kind: str, source: str, options: list[str]) -> Json:
    return {"destination": destination, "type": kind, "source": source, "options": options}


def _resources(manifest: Json, app_isolators: list[Json], facts: AppFacts) -> Json:
    """Return ``linux.resources`` of the app's ``config.json``: device rules and resource limits."""
    if not facts.flavour.confined:
        return {"devices": [{"allow": True, "access": "rwm"}]}
    rules: list[Json] = [{"allow": False, "access": "rwm"}]
    volumes = manifest.get("volumes", [])
    read_only = {volume["name"] for volume in volumes if volume.get("readOnly")}
    for name, (kind, major, minor) in facts.devices.items():
        access = "r" if name in read_only else "rw"
        rule = {"allow": True, "type": kind, "major": major, "minor": minor, "access": access}
        rules.append(rule)
    for device in facts.host_devices:
        rules.append({"allow": True, **{name: device[name] for name in _RULE_MEMBERS}})
    if _is_privileged(app_isolators, facts):
        rules = [{"allow": True, "access": "rwm"}]
    limits = oci_resources.enforceable(app_isolators, facts.controllers)
    cpu_limit = isolators.cpu_limit(manifest.get("isolators", []))
    return {"devices": rules, **oci_resources.resources(limits, cpu_limit)}


def _annotations(entry: Json, facts: AppFacts, image_config: Json) -> dict[str, str]:
    # Copy no other labels to annotations: some annotations configure the runtime, which an image
    # must not do.
    labels = (image_config.get("config") or {}).get("Labels") or {}
    annotations = {name: str(labels[name]) for name in labels if name.startswith(IMAGE_ANNOTATION)}
    for member in ("os", "architecture", "variant", "author", "created"):
        if isinstance(image_config.get(member), str):
            annotations[f"{IMAGE_ANNOTATION}{member}"] = image_config[member]
    annotations[f"{IMAGE_ANNOTATION}stopSignal"] = entry["app"].get("stopSignal") or "SIGTERM"
    annotations |= {row["name"]: row["value"] for row in entry.get("annotations", [])}
    annotations["ociruntime.pod.uuid"] = facts.uuid
    annotations["ociruntime.pod.app"] = entry["name"]
    return annotations
