"""The flavours of pods: how strongly their apps are isolated from the host.

``oci`` isolates apps with namespaces and limits.  ``fly`` gives an app only its own root directory;
it is meant for programs that manage the host.  ``kvm`` runs the apps in a virtual machine.
"""

from __future__ import annotations

from ociruntime.base.errors import PodError, UsageError

Mount = tuple[str, str, str, tuple[str, ...]]


class Flavour:
    """A flavour of pods (oci, kvm or fly): how strongly apps are isolated from the host.

    ``joined`` lists the types of the namespaces that the pod's apps share, ``own`` the types of the
    namespaces that each app has for itself.  ``mounts`` lists the mounts that every app gets, as
    tuples (destination, type, source, options).  ``confined`` is True if apps are restricted by
    capabilities, seccomp, masked paths, device rules and limits.  ``apps`` is the maximum number of
    apps in a pod.  ``recursive`` is True if volumes include submounts by default.  ``ignored``
    lists the command-line options that have no effect on pods of this flavour.
    """

    __slots__ = ("apps", "confined", "ignored", "joined", "mounts", "name", "own", "recursive")

    def __init__(
        self,
        name: str,
        joined: tuple[str, ...],
        own: tuple[str, ...],
        mounts: tuple[Mount, ...],
        *,
        confined: bool,
        recursive: bool,
        apps: int,
        ignored: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.joined = joined
        self.own = own
        self.mounts = mounts
        self.confined = confined
        self.recursive = recursive
        self.apps = apps
        self.ignored = ignored


_VIRTUAL_MOUNTS: tuple[Mount, ...] = (
    ("/proc", "proc", "proc", ("nosuid", "noexec", "nodev")),
    ("/dev", "tmpfs", "tmpfs", ("nosuid", "strictatime", "mode=755", "size=65536k")),
    (
        "/dev/pts",
        "devpts",
        "devpts",
        ("nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"),
    ),
    ("/dev/shm", "tmpfs", "shm", ("nosuid", "noexec", "nodev", "mode=1777", "size=65536k")),
    ("/dev/mqueue", "mqueue", "mqueue", ("nosuid", "noexec", "nodev")),
    ("/sys", "sysfs", "sysfs", ("nosuid", "noexec", "nodev", "ro")),
)
# Programs that adapt to their limits (JVMs, Go programs) read them from /sys/fs/cgroup.
_OCI_MOUNTS = (
    *_VIRTUAL_MOUNTS,
    ("/sys/fs/cgroup", "cgroup", "cgroup", ("nosuid", "noexec", "nodev", "relatime", "ro")),
)
_HOST = ("rbind", "rslave")
_FLY_MOUNTS: tuple[Mount, ...] = (
    ("/dev", "bind", "/dev", _HOST),
    ("/proc", "bind", "/proc", _HOST),
    ("/sys", "bind", "/sys", _HOST),
    ("/tmp", "tmpfs", "tmpfs", ("nosuid", "nodev", "mode=1777")),
)

# Options without effect: a fly app has the host's namespaces and no limits.
_FLY_IGNORES = (
    *(
        "net",
        "net-name",
        "hostname",
        "ipc",
        "pid",
        "uts",
        "domainname",
        "shm-size",
        "dns",
        "dns-search",
        "dns-opt",
        "dns-domain",
        "hosts-entry",
    ),
    *("memory", "cpu", "cpu-shares", "pids", "oom-score-adj", "caps-retain", "caps-remove"),
    *("seccomp", "memory-swap", "memory-reservation", "cpu-quota", "cpu-period"),
    *("cpuset-cpus", "cpuset-mems", "device", "privileged"),
)

_KVM_IGNORES = ("seccomp", "oom-score-adj")

FLAVOURS = {
    "oci": Flavour(
        "oci",
        ("user", "pid", "network", "ipc", "uts"),
        ("mount", "cgroup"),
        _OCI_MOUNTS,
        confined=True,
        recursive=True,
        apps=1 << 16,
    ),
    "kvm": Flavour(
        "kvm",
        (),
        ("mount",),
        _VIRTUAL_MOUNTS,
        confined=True,
        recursive=True,
        apps=24,
        ignored=_KVM_IGNORES,
    ),
    "fly": Flavour(
        "fly",
        (),
        ("mount",),
        _FLY_MOUNTS,
        confined=False,
        recursive=False,
        apps=1,
        ignored=_FLY_IGNORES,
    ),
}
# Names that rkt gave its stage 1 images; in full, coreos.com/rkt/stage1-NAME:VERSION.
ALIASES = {"nspawn": "oci", "coreos": "oci", "host": "oci", "src": "oci"}
ALIASES |= {f"stage1-{name}": ALIASES.get(name, name) for name in (*FLAVOURS, *ALIASES)}
_PREFIX = "coreos.com/rkt/"
DEFAULT = "oci"


def flavour(name: str) -> Flavour:
    """Return the flavour ``name``: oci, kvm, fly, or the name of one of rkt's stage 1 images.

    Raises PodError if the name is unknown.
    """
    short = name
    if name.startswith(_PREFIX):
        short = name.removeprefix(_PREFIX).partition(":")[0]
    match = FLAVOURS.get(ALIASES.get(short, short))
    if match is None:
        raise PodError(f'unknown flavour "{name}"', f"supported: {', '.join(sorted(FLAVOURS))}")
    return match


def check_number(kind: Flavour, apps: int) -> None:
    """Raise UsageError if ``apps``, a number, is too many apps for a pod of flavour ``kind``."""
    if apps > kind.apps:
        most = "one app only" if kind.apps == 1 else f"at most {kind.apps} apps"
        raise UsageError(f"a pod of flavour {kind.name} can have {most}")
