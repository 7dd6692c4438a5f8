"""Looking at the host, for the compiler (``plan/facts.py``): a few small reads."""

from __future__ import annotations

import posix

from ociruntime.errors import HostError
from ociruntime.host.files import read_file
from ociruntime.plan.facts import HostFacts

SELINUX = "/sys/fs/selinux/enforce"
APPARMOR = "/sys/module/apparmor/parameters/enabled"


def gather(
    cgroup_mode: str, hierarchies: tuple[tuple[str, str], ...], security_modules: bool = False
) -> HostFacts:
    """The facts about this host and this process; cgroups as the caller has found them.

    ``security_modules`` asks for AppArmor and SELinux, which only a config that names a
    profile or a label needs to know.  Raises HostError without a /proc.
    """
    try:
        return HostFacts(
            uid=posix.geteuid(),
            last_capability=int(read_file("/proc/sys/kernel/cap_last_cap")),
            bounding=_bounding(read_file("/proc/self/status")),
            cgroup_mode=cgroup_mode,
            hierarchies=hierarchies,
            apparmor=security_modules and apparmor_enabled(),
            selinux=security_modules and selinux_enabled(),
        )
    except OSError as error:
        raise HostError("read what this process may do from /proc", error) from None


def apparmor_enabled() -> bool:
    """Whether the kernel confines by AppArmor profiles."""
    return _content(APPARMOR).startswith(b"Y")


def selinux_enabled() -> bool:
    """Whether the kernel has an SELinux policy, enforced or not."""
    return _content(SELINUX) != b""


def _bounding(status: bytes) -> int:
    start = status.index(b"\nCapBnd:") + 8
    return int(status[start : status.index(b"\n", start)], 16)


def _content(path: str) -> bytes:
    try:
        return read_file(path)
    except OSError:
        return b""
