"""Gather the facts about the host that the plan depends on (``runtime/plan/facts.py``)."""

from __future__ import annotations

import posix

from ociruntime.base.errors import HostError
from ociruntime.base.files import read_file
from ociruntime.runtime.plan.facts import HostFacts

SELINUX = "/sys/fs/selinux/enforce"
APPARMOR = "/sys/module/apparmor/parameters/enabled"
# Files below /proc that accept an AppArmor profile.  Before Linux 5.8 only the second exists; it
# belongs to the first enabled security module.
APPARMOR_FILES = ("self/attr/apparmor/exec", "self/attr/exec")
NS_GET_USERNS = 0xB701  # ioctl_ns(2)


def gather(
    cgroup_mode: str,
    hierarchies: tuple[tuple[str, str], ...],
    security_modules: bool = False,
    user_namespace: bool = False,
    unified: str = "",
) -> HostFacts:
    """Return the facts about this host and this process that the plan depends on.

    ``cgroup_mode``, ``hierarchies`` and ``unified`` come from the ``Layout`` that the caller has
    detected.  ``security_modules``: whether to look for AppArmor and SELinux; only a container with
    a profile or a label needs this.  ``user_namespace``: whether this process is in a user
    namespace other than the initial one.  Raises HostError if a file below /proc cannot be read.
    """
    uid = posix.geteuid()
    try:
        return HostFacts(
            uid=uid,
            gid=posix.getegid(),
            last_capability=int(read_file("/proc/sys/kernel/cap_last_cap")),
            bounding=_bounding(read_file("/proc/self/status")),
            cgroup_mode=cgroup_mode,
            hierarchies=hierarchies,
            apparmor=apparmor_file() if security_modules else "",
            selinux=security_modules and selinux_enabled(),
            user_namespace=user_namespace,
            owns_mounts=uid == 0 and not (user_namespace and not _owns_mounts()),
            unified=unified,
        )
    except OSError as error:
        raise HostError("read the privileges of this process from /proc", error) from None


def apparmor_file() -> str:
    """Return the file below /proc that accepts an AppArmor profile; "" if AppArmor is disabled."""
    if not _content(APPARMOR).startswith(b"Y"):
        return ""
    own, shared = APPARMOR_FILES
    try:
        posix.stat(f"/proc/{own}")
    except FileNotFoundError:
        return shared
    return own


def selinux_enabled() -> bool:
    """Return whether SELinux is enabled, in enforcing or permissive mode."""
    return _content(SELINUX) != b""


def _owns_mounts() -> bool:
    """Return whether this process's user namespace owns its mount namespace."""
    from fcntl import ioctl

    try:
        mounts = posix.open("/proc/self/ns/mnt", posix.O_RDONLY | posix.O_CLOEXEC)
        try:
            owner = ioctl(mounts, NS_GET_USERNS)
        finally:
            posix.close(mounts)
        try:
            return posix.fstat(owner).st_ino == posix.stat("/proc/self/ns/user").st_ino
        finally:
            posix.close(owner)
    except OSError:
        return False  # EPERM: an outer user namespace owns the mount namespace


def _bounding(status: bytes) -> int:
    start = status.index(b"\nCapBnd:") + 8
    return int(status[start : status.index(b"\n", start)], 16)


def _content(path: str) -> bytes:
    try:
        return read_file(path)
    except OSError:
        return b""
