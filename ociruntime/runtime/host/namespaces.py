"""Compare the namespaces of processes; explain why a namespace cannot be created."""

from __future__ import annotations

import errno
import posix
from collections.abc import Callable

from ociruntime.base.errors import ConfigError, HostError
from ociruntime.base.files import read_file
from ociruntime.base.linux import NAMESPACE_FILES, NAMESPACES
from ociruntime.base.mountinfo import parse_mountinfo
from ociruntime.runtime.spec.config_types import Config, IdMapping


def namespaces_apart(pid: int) -> int:
    """Return the CLONE_NEW* flags of the namespaces that process ``pid`` does not share with us.

    Ignores types of namespaces that the kernel does not support.  Raises HostError if the
    namespaces of a process cannot be read.
    """
    apart = 0
    for kind, file in NAMESPACE_FILES.items():
        try:
            ours = posix.readlink(f"/proc/self/ns/{file}")
        except FileNotFoundError:
            continue
        except OSError as error:
            raise HostError(f"inspect the namespaces of this process: {file}", error) from None
        try:
            theirs = posix.readlink(f"/proc/{pid}/ns/{file}")
        except OSError as error:
            raise HostError(f"inspect the namespaces of process {pid}", error) from None
        if theirs != ours:
            apart |= NAMESPACES[kind]
    return apart


_FILES = {"network": "net"}  # type -> file in /proc/PID/ns, if the names differ


def check_settings(config: Config) -> None:
    """Raise ConfigError for settings that do not fit the namespaces that the container joins.

    A host name or sysctl must not change a namespace that the runtime itself is in.  Id mappings
    must equal the mappings of the joined user namespace.
    """
    linux = config.get("linux", {})
    paths = {one["type"]: one["path"] for one in linux.get("namespaces", []) if one.get("path")}
    if "user" in paths:
        uids, gids = linux.get("uidMappings", []), linux.get("gidMappings", [])
        _check_mappings({"uid_map": uids, "gid_map": gids}, paths["user"])
    own = {kind for kind, path in paths.items() if _is_own(kind, path)}
    if not own:
        return
    from ociruntime.runtime.spec.sysctl import owner, sysctl_path

    settings = [
        (f'linux.sysctl["{key}"]', owner(sysctl_path(key))) for key in linux.get("sysctl", {})
    ]
    settings += [(name, "uts") for name in ("hostname", "domainname") if config.get(name)]
    for where, kind in settings:
        if kind in own:
            message = (
                f'would change the host: "{paths[kind]}" is the runtime\'s own {kind} namespace'
            )
            raise ConfigError(where, message)


_MAPPINGS = {"uid_map": "uidMappings", "gid_map": "gidMappings"}  # file in /proc/PID -> member


def _check_mappings(mappings: dict[str, list[IdMapping]], path: str) -> None:
    """Raise ConfigError if ``mappings`` differ from the mappings of the user namespace ``path``."""
    for name, actual in _maps_of(path, [each for each in mappings if mappings[each]]).items():
        configured = [(one["containerID"], one["hostID"], one["size"]) for one in mappings[name]]
        if actual and joined_extents(actual) != joined_extents(configured):
            text = ", ".join(f"{inside} {outside} {size}" for inside, outside, size in actual)
            where = f"linux.{_MAPPINGS[name]}"
            raise ConfigError(
                where,
                f'differs from the mappings of the joined user namespace "{path}": {text}',
                "remove the mappings from config.json",
            )


def _maps_of(path: str, names: list[str]) -> dict[str, list[tuple[int, int, int]]]:
    """Return the id maps of the user namespace at ``path``; {} if they cannot be read.

    ``names`` are the files to read (``uid_map``, ``gid_map``).  The result maps each name to a list
    of (inside, outside, size).
    """
    if not names:
        return {}
    try:
        namespace = posix.stat(path)
    except OSError:
        return {}  # setns(2) will report the error
    pids = [each for each in path.split("/")[2:3] if path.startswith("/proc/") and each.isdigit()]
    for pid in pids or [each for each in posix.listdir("/proc") if each.isdigit()]:
        try:
            other = posix.stat(f"/proc/{pid}/ns/user")
            if (other.st_dev, other.st_ino) != (namespace.st_dev, namespace.st_ino):
                continue
            texts = {name: read_file(f"/proc/{pid}/{name}").decode() for name in names}
        except OSError:
            continue  # the process has exited, or we may not read its maps
        return {name: _extents(text) for name, text in texts.items()}
    return {}


def _extents(text: str) -> list[tuple[int, int, int]]:
    rows = (map(int, line.split()) for line in text.splitlines())
    return [(inside, outside, size) for inside, outside, size in rows]


def joined_extents(extents: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Sort ranges (inside, outside, size) and merge adjacent ones."""
    joined: list[tuple[int, int, int]] = []
    for inside, outside, size in sorted(extents):
        if joined:
            first, start, length = joined[-1]
            if (first + length, start + length) == (inside, outside):
                joined[-1] = (first, start, length + size)
                continue
        joined.append((inside, outside, size))
    return joined


def _is_own(kind: str, path: str) -> bool:
    try:
        joined, own = posix.stat(path), posix.stat(f"/proc/self/ns/{_FILES.get(kind, kind)}")
    except OSError:
        return False  # setns(2) will report the error
    return (joined.st_dev, joined.st_ino) == (own.st_dev, own.st_ino)


# Sysctls of Debian and Ubuntu: (file below /proc/sys, value that denies user namespaces, remedy).
SWITCHES = (
    (
        "kernel/unprivileged_userns_clone",
        "0",
        (
            "only root may create user namespaces: kernel.unprivileged_userns_clone is 0;"
            " as root: sysctl -w kernel.unprivileged_userns_clone=1"
        ),
    ),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        (
            "AppArmor restricts user namespaces: give ociruntime a profile with the rule"
            ' "userns,", or as root: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0'
        ),
    ),
)
NONE_ALLOWED = (
    "user.max_user_namespaces is 0: no user namespaces are allowed;"
    " as root: sysctl -w user.max_user_namespaces=15000"
)
CHROOT = "the kernel denies user namespaces in a chroot(2): use pivot_root(2), or a container"
FILTER = (
    "ociruntime runs under a seccomp filter; an outer container needs a filter that allows clone,"
    " clone3, unshare, mount and similar calls: --security-opt seccomp=unconfined for its engine"
)
DEPTH = "a limit is reached: sysctl user.max_*_namespaces, or 32 nested user namespaces"


def obstacle(error: int, read: Callable[[str], str] | None = None) -> str:
    """Return the cause and the remedy for an errno of clone(2) or unshare(2); "" if unknown.

    ``read`` returns the text of a file below /proc, "" if it is missing.
    """
    read = read or _read
    if error in (errno.ENOSPC, errno.EUSERS):
        none = read("sys/user/max_user_namespaces").strip() == "0"
        return NONE_ALLOWED if none else DEPTH
    if error not in (errno.EPERM, errno.EACCES):
        return ""
    for name, refusing, advice in SWITCHES:
        if read(f"sys/{name}").strip() == refusing and not _is_host_root(read):
            return advice
    if _is_chroot(read("self/mountinfo")):
        return CHROOT
    if "\nSeccomp:\t2" in read("self/status"):
        return FILTER
    return ""


def _is_host_root(read: Callable[[str], str]) -> bool:
    """Return whether this process is root of the initial user namespace.

    The sysctls in ``SWITCHES`` do not restrict such a process.  ``read`` returns the text of a file
    below /proc.
    """
    return "\nUid:\t0\t0\t" in read("self/status") and read("self/uid_map").split()[1:2] == ["0"]


def _is_chroot(mountinfo: str) -> bool:
    """Return whether this process is in a chroot, that is, whether / is not a mount point."""
    points = [mount.target for mount in parse_mountinfo(mountinfo)]
    return bool(points) and "/" not in points


def _read(name: str) -> str:
    try:
        return read_file(f"/proc/{name}").decode(errors="replace")
    except OSError:
        return ""
