"""What the compiler knows besides config.json: the host, and the request.

Both are filled in by the layers that look (``host/facts.py``, ``runtime/create.py``), so
that the compiler itself looks at nothing and a test can pretend any host.
"""

from __future__ import annotations


class HostFacts:
    """What the host is like, as far as a decision depends on it."""

    __slots__ = (
        "apparmor",
        "bounding",
        "cgroup_mode",
        "hierarchies",
        "last_capability",
        "selinux",
        "uid",
    )

    def __init__(
        self,
        *,
        uid: int,
        last_capability: int,
        bounding: int,
        cgroup_mode: str,
        hierarchies: tuple[tuple[str, str], ...],
        apparmor: bool = False,
        selinux: bool = False,
    ) -> None:
        self.uid = uid
        self.last_capability = last_capability  # number of the highest one the kernel knows
        self.bounding = bounding  # mask of capabilities the runtime itself may pass on
        self.cgroup_mode = cgroup_mode  # "v1", "hybrid" or "v2"
        # v1: (what names it in mount options, e.g. "memory", "cpu,cpuacct" or "name=systemd";
        #      the container's directory).  v2: one entry, ("", directory).  A hybrid host's
        #      unified hierarchy comes last, with the empty name.
        self.hierarchies = hierarchies
        self.apparmor = apparmor
        self.selinux = selinux


class Request:
    """What was asked for beside the bundle, and what was prepared on the host for it."""

    __slots__ = (
        "bundle",
        "console",
        "id",
        "new_keyring",
        "no_pivot",
        "preserve_fds",
        "rootfs",
        "seccomp_filter",
        "seccomp_flags",
    )

    def __init__(
        self,
        *,
        id: str,
        bundle: str,
        rootfs: str,
        console: bool = False,
        no_pivot: bool = False,
        new_keyring: bool = True,
        preserve_fds: int = 0,
        seccomp_filter: bytes = b"",
        seccomp_flags: int = 0,
    ) -> None:
        self.id = id
        self.bundle = bundle  # absolute
        self.rootfs = rootfs  # absolute, no symbolic link in it
        self.console = console  # process.terminal
        self.no_pivot = no_pivot
        self.new_keyring = new_keyring
        self.preserve_fds = preserve_fds
        self.seccomp_filter = seccomp_filter  # struct sock_filter array, empty: no filter
        self.seccomp_flags = seccomp_flags
