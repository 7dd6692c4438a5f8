"""Facts of the host that decide which cases can run."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path

from conformance import cgroups

# Kinds of host that files of known deviations and reports distinguish.
KINDS = {
    "v1": "cgroup v1",
    "v2": "cgroup v2",
    "systemd": "cgroup v2 with systemd",
    "user": "an ordinary user",
}


class Host:
    """Facts of the host, evaluated on first use."""

    @cached_property
    def root(self) -> bool:
        """True if the kit runs as root of the initial user namespace."""
        first = Path("/proc/self/uid_map").read_text().split()
        return os.geteuid() == 0 and first[:2] == ["0", "0"] and int(first[2]) > 1 << 31

    @cached_property
    def kernel(self) -> tuple[int, int]:
        """The kernel's (major, minor) version."""
        major, minor = os.uname().release.split(".")[:2]
        return int(major), int("".join(filter(str.isdigit, minor)))

    @cached_property
    def cgroup_mode(self) -> str:
        """``v1``, ``hybrid``, ``v2`` or ``none``."""
        return cgroups.mode()

    @cached_property
    def controllers(self) -> frozenset[str]:
        """All mounted controllers, of both cgroup versions."""
        return frozenset().union(*(one.controllers for one in cgroups.hierarchies()))

    @cached_property
    def capabilities(self) -> int:
        """The kit's permitted capabilities as a bit mask."""
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("CapPrm:"):
                return int(line.split()[1], 16)
        return 0

    @cached_property
    def filesystems(self) -> frozenset[str]:
        """Filesystem types that the kernel has, without modules that are not loaded."""
        lines = Path("/proc/filesystems").read_text().splitlines()
        return frozenset(line.split()[-1] for line in lines)

    @cached_property
    def security_modules(self) -> frozenset[str]:
        """Active security modules: ``apparmor``, ``selinux`` (only with a policy loaded) ..."""
        try:
            modules = set(Path("/sys/kernel/security/lsm").read_text().split(","))
        except OSError:
            paths = {
                "selinux": Path("/sys/fs/selinux/enforce"),
                "apparmor": Path("/sys/kernel/security/apparmor/profiles"),
            }
            modules = {name for name, path in paths.items() if path.exists()}
        if "selinux" in modules and ":" not in Path("/proc/self/attr/current").read_text():
            modules.remove("selinux")
        return frozenset(modules)

    @cached_property
    def resctrl(self) -> bool:
        """True if the resctrl filesystem is mounted."""
        return Path("/sys/fs/resctrl/schemata").exists()

    @cached_property
    def page_sizes(self) -> frozenset[str]:
        """Huge page sizes in the form of cgroup file names, such as ``2MB``."""
        names = [path.name for path in Path("/sys/kernel/mm/hugepages").glob("hugepages-*kB")]
        sizes = [int(name.removeprefix("hugepages-").removesuffix("kB")) for name in names]
        return frozenset(_size_name(size) for size in sizes)

    @cached_property
    def nodes(self) -> frozenset[int]:
        """Numbers of the NUMA nodes."""
        names = [path.name for path in Path("/sys/devices/system/node").glob("node[0-9]*")]
        return frozenset(int(name.removeprefix("node")) for name in names)

    def kind(self, systemd: bool) -> str:
        """Return a key of KINDS; ``systemd``: the runtime creates cgroups through systemd."""
        if not self.root:
            return "user"
        if systemd:
            return "systemd"
        return "v2" if self.cgroup_mode == "v2" else "v1"

    def describe(self, systemd: bool) -> dict[str, str]:
        """Return the host's description for reports."""
        return {
            "kind": self.kind(systemd),
            "kernel": os.uname().release,
            "machine": os.uname().machine,
            "cgroups": self.cgroup_mode,
            "controllers": " ".join(sorted(self.controllers)),
            "user": "root" if self.root else str(os.geteuid()),
        }


def _size_name(kibibytes: int) -> str:
    for unit in ("KB", "MB"):
        if kibibytes < 1024:
            return f"{kibibytes}{unit}"
        kibibytes //= 1024
    return f"{kibibytes}GB"
