"""Probes of the kernel: features that it may lack, or that a seccomp filter may deny.

The probes make system calls with invalid arguments: only ENOSYS, or EPERM from a seccomp filter,
means that a call is not available.  These calls have the same numbers on every architecture except
alpha.
"""

from __future__ import annotations

import errno
import platform
from collections.abc import Callable
from struct import pack

from ociruntime.base.linux import NAMESPACE_FILES
from ociruntime.base.mountinfo import parse_mountinfo
from ociruntime.runtime.check.finding import LIMITED, MISSING, OK, Answer, Host, Probe

OPEN_TREE, PIDFD_OPEN, CLONE3, CLOSE_RANGE, OPENAT2, MOUNT_SETATTR = 428, 434, 435, 436, 437, 442
BAD_FLAGS = 0x7FFFFFFF
CLONE_INTO_CGROUP = 0x200000000
FILESYSTEMS = ("proc", "sysfs", "tmpfs", "devpts", "mqueue")


def _call(
    number: int, *arguments: int | bytes | None, absent: str = LIMITED
) -> Callable[[Host], Answer]:
    """Return a probe that makes system call ``number``.

    ``absent`` is the state that the probe reports if the call is not available.
    """

    def look(host: Host) -> Answer:
        if host.has_call(number, *arguments):
            return Answer(OK, "available")
        return Answer(absent, "not in this kernel, or denied by a seccomp filter")

    return look


def _version(host: Host) -> Answer:
    return Answer(OK, host.read("/proc/sys/kernel/osrelease").strip() or platform.release())


def into_cgroup(host: Host) -> Answer:
    """Probe CLONE_INTO_CGROUP: a kernel that has it refuses an invalid descriptor with EBADF."""
    arguments = pack("=11Q", CLONE_INTO_CGROUP, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0x7FFFFFFF)
    if host.call(CLONE3, arguments, len(arguments)) == errno.EBADF:
        return Answer(OK, "available")
    return Answer(LIMITED, "not in this kernel, or denied by a seccomp filter")


def _namespaces(host: Host) -> Answer:
    missing = [
        kind for kind, file in NAMESPACE_FILES.items() if not host.exists(f"/proc/self/ns/{file}")
    ]
    if not missing:
        return Answer(OK, f"all {len(NAMESPACE_FILES)} types")
    essential = {"mount", "pid"} & set(missing)
    return Answer(MISSING if essential else LIMITED, "missing: " + ", ".join(missing))


def _id_maps(host: Host) -> Answer:
    if host.has_call(MOUNT_SETATTR, -1, None, BAD_FLAGS, None, 0):
        if host.rootless:
            return Answer(
                LIMITED,
                "only for root of the host",
                "mounts with uidMappings or the option idmap are refused",
                "start the container as root",
            )
        return Answer(OK, "available")
    return Answer(LIMITED, "mount_setattr is not in this kernel, or denied by a seccomp filter")


def _filters(host: Host) -> Answer:
    if not host.status("Seccomp"):
        return Answer(LIMITED, "not in this kernel")
    actions = host.read("/proc/sys/kernel/seccomp/actions_avail").split()
    if "user_notif" not in actions:
        return Answer(
            LIMITED,
            "without notifications",
            "linux.seccomp with SCMP_ACT_NOTIFY is refused",
            "use Linux 5.0 or newer",
        )
    return Answer(OK, f"{len(actions)} actions, with notifications")


def _filesystems(host: Host) -> Answer:
    supported = {line.split()[-1] for line in host.read("/proc/filesystems").splitlines() if line}
    missing = [name for name in FILESYSTEMS if name not in supported]
    if not missing:
        return Answer(OK, ", ".join(FILESYSTEMS))
    return Answer(MISSING if "proc" in missing else LIMITED, "missing: " + ", ".join(missing))


def _overlay(host: Host) -> Answer:
    if "\toverlay\n" in host.read("/proc/filesystems"):
        return Answer(OK, "available")
    return Answer(LIMITED, "not loaded")


def _memory_files(host: Host) -> Answer:
    refusing = host.read("/proc/sys/vm/memfd_noexec").strip() == "2"
    return Answer(MISSING, "refused: vm.memfd_noexec is 2") if refusing else Answer(OK, "allowed")


def _masks(host: Host) -> Answer:
    over = [
        mount.target
        for mount in parse_mountinfo(host.read("/proc/self/mountinfo"))
        if mount.target.startswith("/proc/") and mount.target != "/proc/sys/fs/binfmt_misc"
    ]
    if not over:
        return Answer(OK, "no masked paths")
    return Answer(LIMITED, f"masked: {', '.join(over[:3])}{' ...' if len(over) > 3 else ''}")


NEWER = "use a newer kernel; inside a container: --security-opt seccomp=unconfined"

KERNEL: tuple[Probe, ...] = (
    Probe("version", _version, "", ""),
    Probe(
        "clone3",
        _call(CLONE3, None, 0, absent=MISSING),
        "no container can be started",
        "use Linux 5.5 or newer; inside a container: --security-opt seccomp=unconfined",
        essential=True,
    ),
    Probe(
        "pidfd",
        _call(PIDFD_OPEN, -1, BAD_FLAGS, absent=MISSING),
        "no container can be started or reliably killed",
        NEWER,
        essential=True,
    ),
    Probe(
        "clone into cgroup",
        into_cgroup,
        "on cgroup v2 no container can be started",
        "use Linux 5.7 or newer",
    ),
    Probe(
        "mount API",
        _call(OPEN_TREE, -1, None, BAD_FLAGS),
        "mount(2) is used instead, which cannot map ids or mount in a joined mount namespace",
        NEWER,
    ),
    Probe(
        "mount attributes",
        _call(MOUNT_SETATTR, -1, None, BAD_FLAGS, None, 0),
        "recursive mount options (rro, rnosuid ...) are refused",
        NEWER,
    ),
    Probe(
        "id-mapped mounts",
        _id_maps,
        "mounts with uidMappings or the option idmap are refused",
        "use Linux 5.12 or newer",
    ),
    Probe(
        "openat2",
        _call(OPENAT2, -1, None, None, 0),
        "paths in the container are resolved one component at a time: as safe, but slower",
        NEWER,
    ),
    Probe(
        "close_range",
        _call(CLOSE_RANGE, 1, 0, 0),
        "descriptors are closed one by one, which is slower",
        NEWER,
    ),
    Probe(
        "namespaces",
        _namespaces,
        "containers with these namespaces are refused",
        "use a kernel built with CONFIG_NAMESPACES and CONFIG_*_NS",
        essential=True,
    ),
    Probe(
        "seccomp",
        _filters,
        "containers with linux.seccomp are refused",
        "use a kernel built with CONFIG_SECCOMP_FILTER",
    ),
    Probe(
        "filesystems",
        _filesystems,
        "mounts of these types fail",
        "use a kernel built with these filesystems",
        essential=True,
    ),
    Probe(
        "overlayfs",
        _overlay,
        "engines copy whole images instead of stacking their layers",
        "modprobe overlay",
    ),
    Probe(
        "programs in memory",
        _memory_files,
        "no container can be started: the executor is a sealed copy in memory",
        "as root: sysctl -w vm.memfd_noexec=1",
        essential=True,
    ),
    Probe(
        "/proc",
        _masks,
        "a user namespace cannot mount proc: rootless containers fail, or must bind-mount the"
        " outer /proc",
        "outer container: --security-opt unmask=ALL (podman), systempaths=unconfined (docker)",
    ),
)
