"""Check that the host has what a config needs, such as files, programs, id ranges and devices.

Without these checks, ``create`` would find such a fault only after it has begun to create the
container.  Each check takes the config (with valid JSON types), the bundle, the path of the root
filesystem ("" if it is missing) and the Host.  It yields faults, and does not change the host.
"""

from __future__ import annotations

import errno
import os
import resource
import stat
from collections.abc import Callable, Iterator, Sequence

from ociruntime.base.capabilities import CAPABILITIES
from ociruntime.base.linux import RLIMITS
from ociruntime.base.open_below_root import open_inside
from ociruntime.runtime.check.finding import Fault, Host, Json
from ociruntime.runtime.executor.failure_messages import HINTS
from ociruntime.runtime.host.idmap import (
    GID,
    UID,
    granted_ranges,
    is_granted,
    is_own_id,
    missing_line,
    user_name,
)
from ociruntime.runtime.plan.mounts import is_bind
from ociruntime.runtime.plan.process import DEFAULT_PATH

Check = Callable[[Json, str, str, Host], Iterator[Fault]]


# ruff: noqa: ARG001  # the rows of a table take the same arguments


ON_HOST = ("prestart", "createRuntime", "createContainer", "poststart", "poststop")
ABSENT = "does not exist: no such file or directory"
PROFILES = "/sys/kernel/security/apparmor/profiles"


def sources(config: Json, bundle: str, rootfs: str, host: Host) -> Iterator[Fault]:
    """Yield a fault for each source of a bind mount that does not exist."""
    for index, mount in enumerate(config.get("mounts", [])):
        source = mount.get("source")
        if is_bind(mount) is None or not source:
            continue
        path = source if source.startswith("/") else f"{bundle}/{source}"
        if not host.exists(path):
            yield Fault(f"mounts[{index}].source", f'"{path}" {ABSENT}', "")


def hooks(config: Json, bundle: str, rootfs: str, host: Host) -> Iterator[Fault]:
    """Yield a fault for each hook whose program on the host is missing or not executable."""
    for kind in ON_HOST:
        for index, hook in enumerate(config.get("hooks", {}).get(kind, [])):
            path = hook["path"]
            where = f"hooks.{kind}[{index}].path"
            if not os.path.isabs(path):
                continue  # validate() refuses relative hook paths
            if not os.path.exists(path):
                yield Fault(where, f'"{path}" {ABSENT}', "")
            elif os.path.isdir(path) or not os.access(path, os.X_OK):
                yield Fault(where, f'"{path}" is not executable', f"chmod +x {path}")


def program(config: Json, bundle: str, rootfs: str, host: Host) -> Iterator[Fault]:
    """Yield a fault for each missing program of the container or of its startContainer hooks."""
    if not rootfs:
        return
    points = [each["destination"] for each in config.get("mounts", [])]
    process = config.get("process")
    if process and process["args"][0]:
        yield from _program(config, process, rootfs, points)
    for index, hook in enumerate(config.get("hooks", {}).get("startContainer", [])):
        where = f"hooks.startContainer[{index}].path"
        if not covered(hook["path"], points) and not find_in_root(rootfs, hook["path"]):
            yield Fault(where, f'"{hook["path"]}" does not exist in the root filesystem', "")


def _program(config: Json, process: Json, rootfs: str, points: list[str]) -> Iterator[Fault]:
    name, where = process["args"][0], "process.args[0]"
    variables = dict(each.partition("=")[::2] for each in process.get("env", []))
    search = variables.get("PATH", DEFAULT_PATH)
    candidates = [name] if "/" in name else [f"{each or '.'}/{name}" for each in search.split(":")]
    paths = [each if each.startswith("/") else f"{process['cwd']}/{each}" for each in candidates]
    if any(covered(each, points) for each in paths):
        return  # the mount may contain the program
    files = [file for each in paths if (file := find_in_root(rootfs, each))]
    if not files and "/" in name:
        yield Fault(where, f'"{name}" does not exist in the root filesystem', "")
    elif not files:
        hint = f"PATH in the container is {search}"
        yield Fault(where, f'"{name}": executable file not found in $PATH', hint)
    elif not any(executable(each, process["user"], config.get("linux", {})) for each in files):
        user = process["user"]
        hint = "make it executable for this user (chmod)"
        yield Fault(where, f'"{name}" is not executable for {user["uid"]}:{user["gid"]}', hint)


def limits(config: Json, bundle: str, rootfs: str, host: Host) -> Iterator[Fault]:
    """Yield a fault for each rlimit or oomScoreAdj that an unprivileged caller cannot set."""
    effective = int(host.status("CapEff") or "0", 16)
    if effective >> CAPABILITIES.index("CAP_SYS_RESOURCE") & 1 and not host.rootless:
        return
    process = config.get("process", {})
    for index, limit in enumerate(process.get("rlimits", [])):
        _, hard = resource.getrlimit(RLIMITS[limit["type"]])
        if 0 <= hard < limit["hard"]:
            message = f"{limit['hard']} is above the caller's hard limit {hard}"
            where = f"process.rlimits[{index}].hard"
            yield Fault(where, message, HINTS["rlimit", errno.EPERM])
    score, own = process.get("oomScoreAdj"), host.read("/proc/self/oom_score_adj").strip()
    if score is not None and own and score < int(own):
        hint = "lowering the score requires CAP_SYS_RESOURCE on the host"
        yield Fault(
            "process.oomScoreAdj", f"{score} is below the caller's own oom_score_adj {own}", hint
        )


def profile(config: Json, bundle: str, rootfs: str, host: Host) -> Iterator[Fault]:
    """Yield a fault if the AppArmor profile ``process.apparmorProfile`` is not loaded."""
    name = config.get("process", {}).get("apparmorProfile")
    loaded = host.read(PROFILES)
    if not name or name == "unconfined" or not loaded:
        return
    if name not in {line.rpartition(" (")[0] for line in loaded.splitlines()}:
        hint = "load it with apparmor_parser"
        yield Fault("process.apparmorProfile", f'AppArmor profile "{name}" is not loaded', hint)


def id_maps(config: Json, bundle: str, rootfs: str, host: Host) -> Iterator[Fault]:
    """Yield a fault for each id mapping that an unprivileged user may not create."""
    if host.uid == 0:
        return
    name = user_name(host.uid)
    for kind, own in ((UID, host.uid), (GID, os.getegid())):
        mappings = config.get("linux", {}).get(f"{kind.name}Mappings", [])
        if is_own_id(mappings, own):
            continue
        granted = granted_ranges(host.read(kind.ranges), name, host.uid)
        for index, each in enumerate(mappings):
            first, size = each["hostID"], each["size"]
            if not is_granted(first, size, granted, own):
                message = (
                    f"{kind.name}s {first} to {first + size - 1}: user {name} may not map them"
                )
                hint = missing_line(kind.ranges, name, first, size, granted)
                yield Fault(f"{kind.where}[{index}]", message, hint)


def namespaces(config: Json, bundle: str, rootfs: str, host: Host) -> Iterator[Fault]:
    """Yield a fault for each ``linux.namespaces`` path that does not exist."""
    for index, each in enumerate(config.get("linux", {}).get("namespaces", [])):
        path = each.get("path")
        if path and not host.exists(path):
            yield Fault(f"linux.namespaces[{index}].path", f'"{path}" {ABSENT}', "")


def agent(config: Json, bundle: str, rootfs: str, host: Host) -> Iterator[Fault]:
    """Yield a fault if ``linux.seccomp.listenerPath`` is not an existing socket."""
    path = config.get("linux", {}).get("seccomp", {}).get("listenerPath")
    if not path:
        return
    where = "linux.seccomp.listenerPath"
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            yield Fault(where, f'"{path}" is not a socket', "")
    except OSError:
        yield Fault(where, f'"{path}" {ABSENT}', "start the agent first")


def devices(config: Json, bundle: str, rootfs: str, host: Host) -> Iterator[Fault]:
    """Yield a fault for each network device in ``linux.netDevices`` that the host does not have."""
    for name in config.get("linux", {}).get("netDevices", {}):
        if name and "/" not in name and not host.exists(f"/sys/class/net/{name}"):
            yield Fault(
                f'linux.netDevices["{name}"]', f'the host has no network device "{name}"', ""
            )


HOST_CHECKS: tuple[Check, ...] = (
    sources,
    hooks,
    program,
    limits,
    profile,
    id_maps,
    namespaces,
    agent,
    devices,
)


def find_in_root(rootfs: str, path: str) -> str:
    """Return the path on the host of a file in the container; "" if the file does not exist.

    ``path`` is the file's path in the container.  It is resolved inside ``rootfs``.
    """
    try:
        root = os.open(rootfs, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        descriptor = open_inside(root, path, os.O_PATH)
        try:
            return os.readlink(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)
    except OSError:
        return ""
    finally:
        os.close(root)


def covered(path: str, points: Sequence[str]) -> bool:
    """Return whether a mount at one of ``points`` covers ``path`` or a parent directory of it."""
    path = os.path.normpath(path)
    tops = (os.path.normpath("/" + each.lstrip("/")) for each in points)
    return any(path == top or path.startswith(f"{top}/") for top in tops)


def executable(file: str, user: Json, linux: Json) -> bool:
    """Return whether the file's mode allows the container's user to execute it."""
    node = os.stat(file, follow_symlinks=False)
    if not stat.S_ISREG(node.st_mode):
        return False
    if user["uid"] == 0:
        return bool(node.st_mode & 0o111)
    groups = [user["gid"], *user.get("additionalGids", [])]
    if node.st_uid == _outside(user["uid"], linux.get("uidMappings", [])):
        return bool(node.st_mode & stat.S_IXUSR)
    if node.st_gid in [_outside(each, linux.get("gidMappings", [])) for each in groups]:
        return bool(node.st_mode & stat.S_IXGRP)
    return bool(node.st_mode & stat.S_IXOTH)


def _outside(number: int, mappings: Sequence[Json]) -> int:
    """Return the host id for the container id ``number``, or -1 if ``mappings`` do not contain it.

    Without mappings, the host id is ``number``.
    """
    for each in mappings:
        if each["containerID"] <= number < each["containerID"] + each["size"]:
            return int(each["hostID"] + number - each["containerID"])
    return -1 if mappings else number
