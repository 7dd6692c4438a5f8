"""The compiler's inputs besides config.json: facts about the host, and the caller's options.

Other packages collect both (``runtime/host/gather_facts.py``, ``runtime/lifecycle/create.py``).
Thus the compiler makes no system call, and a test can simulate any host.
"""

from __future__ import annotations


class HostFacts:
    """The facts about the host that the plan depends on."""

    __slots__ = (
        "apparmor",
        "bounding",
        "cgroup_mode",
        "gid",
        "hierarchies",
        "last_capability",
        "owns_mounts",
        "selinux",
        "uid",
        "unified",
        "user_namespace",
    )

    def __init__(
        self,
        *,
        uid: int,
        last_capability: int,
        bounding: int,
        cgroup_mode: str,
        hierarchies: tuple[tuple[str, str], ...],
        apparmor: str = "",
        selinux: bool = False,
        gid: int = 0,
        user_namespace: bool = False,
        owns_mounts: bool = True,
        unified: str = "",
    ) -> None:
        self.uid = uid
        self.gid = gid
        self.user_namespace = user_namespace  # true if the runtime is in a user namespace
        # True if the runtime's user namespace owns its mount namespace: root may then clone mounts.
        self.owns_mounts = owns_mounts
        self.last_capability = last_capability  # number of the kernel's highest capability
        self.bounding = bounding  # mask of the runtime's own bounding set
        self.cgroup_mode = cgroup_mode  # "v1", "hybrid" or "v2"
        # An entry per hierarchy: (mount option, the container's directory).  The mount option of
        # a v1 hierarchy is e.g. "memory", "cpu,cpuacct" or "name=systemd".  It is "" for the v2
        # hierarchy, which comes last.
        self.hierarchies = hierarchies
        self.unified = unified  # mount point of the v2 hierarchy; "" unless cgroup_mode is "v2"
        self.apparmor = apparmor  # file below /proc to write a profile to; "": no AppArmor
        self.selinux = selinux


class Request:
    """The caller's options for a container or an exec, and what the runtime prepared for it."""

    __slots__ = (
        "bundle",
        "console",
        "id",
        "kernel_mounts",
        "listen_fds",
        "listen_names",
        "new_keyring",
        "no_pivot",
        "preserve_fds",
        "rootfs",
        "seccomp_calls",
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
        kernel_mounts: tuple[str, ...] = (),
        new_keyring: bool = True,
        preserve_fds: int = 0,
        listen_fds: int = 0,
        listen_names: str = "",
        seccomp_filter: bytes = b"",
        seccomp_flags: int = 0,
        seccomp_calls: frozenset[str] = frozenset(),
    ) -> None:
        self.id = id
        self.bundle = bundle  # absolute
        self.rootfs = rootfs  # absolute, no symbolic link in it
        self.console = console  # process.terminal
        self.no_pivot = no_pivot
        self.kernel_mounts = kernel_mounts  # with no_pivot: the host's proc and sysfs, last first
        self.new_keyring = new_keyring
        self.preserve_fds = preserve_fds
        self.listen_fds = listen_fds  # sockets of systemd from descriptor 3 on, before preserve_fds
        self.listen_names = listen_names  # LISTEN_FDNAMES
        self.seccomp_filter = seccomp_filter  # struct sock_filter array, empty: no filter
        self.seccomp_flags = seccomp_flags
        # Names of the system calls that the filter allows, from runtime/host/seccomp_verdicts.py.
        self.seccomp_calls = seccomp_calls
