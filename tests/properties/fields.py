"""Every field of config.json with values worth testing: usual ones, limits, near misses.

The fields are those of ``runtime/spec/schema.py``; in a field's path, ``*`` stands for the items of
an array and the values of a map: ``mounts.*.options.*``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ociruntime.base.capabilities import CAPABILITIES
from ociruntime.runtime.plan.mount_options import ATTRIBUTES, RECURSIVE_ATTRIBUTES
from ociruntime.runtime.spec import schema

Json = Any
Steps = tuple[str, ...]
EACH = "*"


@dataclass(frozen=True)
class Field:
    """A field; ``kind`` and ``need`` are those of schema.py."""

    steps: Steps
    kind: str
    need: Json

    @property
    def path(self) -> str:
        return ".".join(self.steps)


def of_table(table: Json, above: Steps = ()) -> Iterator[Field]:
    """Return all fields of an object, and those inside them."""
    for name, _, kind, need in table:
        yield from _of((*above, name), kind, need)


def _of(steps: Steps, kind: str, need: Json) -> Iterator[Field]:
    yield Field(steps, kind, need)
    if kind == "object":
        yield from of_table(need, steps)
    elif kind in {"array", "map"}:
        yield from _of((*steps, EACH), need[1], need[2])
    elif kind == "strings":
        yield Field((*steps, EACH), "string", None)


FIELDS = tuple(of_table(schema.CONFIG))

DESTINATIONS = (
    *("/data", "data", "/data/deep/er", "/etc/passwd", "/tmp", "//tmp//", "/tmp/../data", "/dev"),
    *("/proc", "/proc/sys", "/proc/uptime", "/proc/self", "/sys", "/sys/fs/cgroup", "/dev/null"),
    *("/", ".", "..", "/..", "/../../etc", "/dev/shm", "/dev/pts", "/dev/mqueue", "/tmp/a b\n"),
    *("/bin/link", "/tmp/loop", "/tmp/away", "/" + "x" * 300, "/x" * 2100, "/tmp/\u00e4\u20ac"),
)
OPTIONS = (
    *ATTRIBUTES,
    *RECURSIVE_ATTRIBUTES,
    *("bind", "rbind", "remount", "tmpcopyup", "idmap", "ridmap", "defaults", "size=64k", "size="),
    *("mode=1777", "mode=9", "uid=70000", "gid=5", "newinstance", "ptmxmode=0666", "readonly"),
    *("private", "rslave", "shared", "unbindable", "x-mount.mkdir", "", "ro ", "RO", "a,b", "=1"),
)
NUMBERS_OF_MEMORY = (-2, -1, 0, 1, 4096, 1 << 20, 1 << 26, 1 << 30, 1 << 62)
DEVICE_PATHS = (
    *("/dev/one", "/dev/sub/two", "/out/three", "/dev/null", "/dev/tty", "/dev/console", "/dev"),
    *("/dev/pts/0", "/dev/ptmx", "/etc/passwd", "/", "/dev/../four", "/dev/five/", "/proc/six"),
)
PATHS = (
    *("/proc/kcore", "/proc/sys", "/proc", "/sys", "/etc", "/etc/passwd", "/nothing", "/", "/."),
    *("/dev/null", "/tmp/link", "/tmp/../etc", "//etc", "/proc/self", "/proc/1/mem", "/bin/\n"),
)
PROGRAMS = ("/bin/true", "/bin/false", "/nothing", "/etc/passwd", "/bin")
CPU_LISTS = ("0", "0-1", "0,1", "", "1-0", "0-", "a", "0-0:1/2", "4096", "0\n1", " 0", "0,,1")
LABELS = ("", "unconfined", "system_u:system_r:container_t:s0", "no such\nlabel")

SCHEMAS = ("L3:0=f", "L3:0=f;1=3", "MB:0=50", "MB:", "L3:0=f\nMB:0=50", "", "x", "L3:0=zz\n")
IDS = (0, 1, 1000, 65534, 100000, (1 << 32) - 2, (1 << 32) - 1)
PROPERTIES = ("CollectMode", "TimeoutStopUSec", "RestartSec", "Slice", "", "A B", "x\ny")

# What systemd's driver takes for linux.cgroupsPath: SLICE:PREFIX:NAME.
UNITS = (
    *("a:b:c", "machine.slice:oci:web", ":oci:web", "machine.slice::web", "::web", "a.slice:b:"),
    *("::", "-.slice:p:n", "::-.slice", "::a-b.slice", "a.slice::a-b.slice", "b.slice::a-b.slice"),
    *("a--b.slice:p:n", ".slice:p:n", "-a.slice:p:n", "a.slice:p:n.scope", "a.slice:p:n.service"),
    *("a.slice:p:../n", "a.slice:p:n/m", "a/b.slice:p:n", "/a.slice:p:n", "a.slice:p q:n", ":::"),
    *("a.slice:p:\n", ":p:\u00e4", "::cpu", "memory.slice::cgroup.procs", "::_x", "::@\\x2d"),
    "a.slice:p:" + "x" * 250,
    "x" * 250 + ".slice:p:n",
)

# Path of a field -> values for it.  What is not here takes values after its kind.
VALUES: dict[str, tuple[object, ...]] = {
    "ociVersion": (
        *("1.0.0", "1.0.2-dev", "1.2.1", "1.3.0", "1.3.0+dev", "1.4.0", "1.99.0", "2.0.0"),
        *("0.9.9", "1.3", "v1.3.0", "", "1.3.0\n", "01.3.0", "1.3.0-", "9" * 30 + ".0.0"),
    ),
    "root.path": ("rootfs", "./rootfs/../rootfs", "", "nothing", "rootfs/etc/passwd", "rootfs\n"),
    "mounts.*.destination": DESTINATIONS,
    "mounts.*.type": (
        *("proc", "sysfs", "tmpfs", "devpts", "mqueue", "bind", "none", "cgroup", "cgroup2"),
        *("", "ext4", "overlay", "nosuchfs", "tmpfs\n"),
    ),
    "mounts.*.source": ("tmpfs", "rootfs/etc", "rootfs/etc/passwd", "", "nothing", "shm", "a\tb"),
    "mounts.*.options.*": OPTIONS,
    "hostname": ("box", "a.b", "", "x" * 64, "x" * 65, "\u00e4" * 33, "a\nb", "a b"),
    "domainname": ("domain", "", "x" * 65, "(none)"),
    "annotations.*": (
        *("", "1", "x\ny", "\u20ac" * 1000, "'inactive'", "uint64 5", "['a', 'b']", "true", "[]"),
        *(
            "-1",
            "1e30",
            "nan",
            "@as []",
            "('a', 1)",
            "uint64 -1",
            "'",
            "..",
            "below",
            "cgroup.procs",
        ),
    ),
    "process.cwd": ("/", "/tmp", "/made", "/made/for/it", "/etc/passwd", "/..", "/tmp/link", "."),
    "process.env.*": ("A=1", "A=2", "PATH=/bin", "HOME=/x", "EMPTY=", "=x", "B", "", "A=\n", "="),
    "process.args.*": ("sleep", "100", "/bin/sleep", "nothing", "", "/etc/passwd", "-x", "\n"),
    "process.user.uid": (0, 1, 1000, 65534, 70000, 4294967294, 4294967295, -1),
    "process.user.gid": (0, 5, 1000, 65534, 70000, 4294967294, 4294967295),
    "process.user.umask": (0, 0o22, 0o77, 0o777, 0o1000, 0o7777, 0o10000),
    "process.rlimits.*.soft": (0, 1, 64, 1024, 1 << 20, 1 << 30, (1 << 64) - 1),
    "process.rlimits.*.hard": (0, 1, 64, 1024, 1 << 20, 1 << 30, (1 << 64) - 1),
    "process.apparmorProfile": LABELS,
    "process.selinuxLabel": LABELS,
    **{
        f"process.capabilities.{kind}.*": (*CAPABILITIES, "CAP_NEW", "chown", "CAP_chown", "", "*")
        for kind in ("bounding", "effective", "permitted", "inheritable", "ambient")
    },
    "process.oomScoreAdj": (-1001, -1000, -1, 0, 1, 500, 1000, 1001),
    "process.scheduler.nice": (-20, 0, 5, 19, 20, -21),
    "process.scheduler.priority": (0, 1, 50, 99, 100, -1),
    "process.scheduler.runtime": (0, 1000, 10_000_000),
    "process.scheduler.deadline": (0, 1000, 20_000_000),
    "process.scheduler.period": (0, 1000, 20_000_000, (1 << 64) - 1),
    "process.execCPUAffinity.initial": CPU_LISTS,
    "process.execCPUAffinity.final": CPU_LISTS,
    **{
        f"hooks.{kind}.*.path": PROGRAMS
        for kind in (
            *("prestart", "createRuntime", "createContainer"),
            *("startContainer", "poststart", "poststop"),
        )
    },
    **{
        f"hooks.{kind}.*.env.*": ("A=1", "A", "", "A=\n")
        for kind in ("createRuntime", "startContainer", "poststop")
    },
    "linux.namespaces.*.path": ("/nothing", "/etc/passwd", "/proc/self", "relative", "", "/bin/\n"),
    "linux.timeOffsets.*.secs": (0, 5, -5, 1 << 33, 1 << 62, -(1 << 62)),
    "linux.timeOffsets.*.nanosecs": (0, 1, 999_999_999, 1_000_000_000),
    "linux.devices.*.path": DEVICE_PATHS,
    "linux.devices.*.major": (0, 1, 5, 7, 10, 4095, 4096, -1),
    "linux.devices.*.minor": (0, 3, 5, 200, 1048575, 1048576, -1),
    "linux.devices.*.fileMode": (0, 0o644, 0o666, 0o777, 0o1000, 0o4755, 0o20666, 1 << 31),
    "linux.netDevices.*.name": ("eth0", "eth%d", "%d%d", "lo", "x" * 16, "", "a/b", "a b", ".."),
    "linux.cgroupsPath": (
        *("/a", "a/b", "/../a", "", "/", ".", "x" * 256, "/a\n", "//a//"),
        *UNITS,
    ),
    "linux.resources.devices.*.access": ("rwm", "r", "m", "", "x", "rr", "RWM"),
    "linux.resources.devices.*.major": (-2, -1, 0, 1, 10, 1 << 40),
    "linux.resources.devices.*.minor": (-2, -1, 0, 3, 1 << 40),
    **{
        f"linux.resources.memory.{name}": NUMBERS_OF_MEMORY
        for name in ("limit", "reservation", "swap", "kernel", "kernelTCP")
    },
    "linux.resources.memory.swappiness": (0, 60, 100, 101),
    "linux.resources.cpu.shares": (0, 1, 2, 1024, 262144, 262145, (1 << 64) - 1),
    "linux.resources.cpu.quota": (-1, 0, 1, 1000, 50000, 1 << 50),
    "linux.resources.cpu.burst": (0, 1000, 50001),
    "linux.resources.cpu.period": (0, 1, 1000, 100000, 1000000, 1000001),
    "linux.resources.cpu.realtimeRuntime": (-1, 0, 1000, 950000),
    "linux.resources.cpu.realtimePeriod": (0, 1000000),
    "linux.resources.cpu.cpus": CPU_LISTS,
    "linux.resources.cpu.mems": CPU_LISTS,
    "linux.resources.pids.limit": (-1, 0, 1, 2, 50, 1 << 22, 1 << 60, -2),
    "linux.resources.blockIO.weight": (0, 9, 10, 500, 1000, 1001),
    "linux.resources.hugepageLimits.*.pageSize": ("2MB", "1GB", "3MB", "2 MB", "", "MB", "02MB"),
    "linux.resources.hugepageLimits.*.limit": (0, 1, 2 << 20, 1 << 40, (1 << 64) - 1),
    "linux.resources.network.priorities.*.name": ("lo", "eth9", "", "a b", "lo\n"),
    "linux.resources.unified.*": ("1", "max", "", "x\ny"),
    "linux.intelRdt.closID": ("", "/", "a", "a/b", "..", "info"),
    "linux.intelRdt.l3CacheSchema": SCHEMAS,
    "linux.intelRdt.memBwSchema": SCHEMAS,
    "linux.intelRdt.schemata.*": SCHEMAS,
    "linux.memoryPolicy.nodes": CPU_LISTS,
    **{
        f"{place}.{kind}.*.{name}": IDS
        for place in ("linux", "mounts.*")
        for kind in ("uidMappings", "gidMappings")
        for name in ("containerID", "hostID", "size")
    },
    "linux.sysctl.*": ("0", "1", "4096", "", "1\n2", "x", "250 32000 32 128"),
    "linux.seccomp.defaultErrnoRet": (0, 1, 38, 4095, 4096),
    "linux.seccomp.syscalls.*.errnoRet": (0, 1, 38, 4095, 4096, 65536),
    "linux.seccomp.syscalls.*.names.*": ("chmod", "mkdir", "personality", "nosuch", "", "a\nb"),
    "linux.seccomp.syscalls.*.args.*.value": (0, 8, 1 << 32, (1 << 64) - 1),
    "linux.seccomp.listenerPath": ("", "/nothing", "relative", "/" + "x" * 200, "/a\n", "/", "@a"),
    "linux.seccomp.listenerMetadata": ("", "text", "a\nb", "\u20ac", '{"a": 1}', "x" * 70000),
    "linux.maskedPaths.*": PATHS,
    "linux.readonlyPaths.*": PATHS,
    "linux.mountLabel": LABELS,
}

# Keys of maps without a fixed list of names.
KEYS: dict[str, tuple[str, ...]] = {
    "annotations": (
        *("org.example.a", "a", "", "a b", 'a"b', "a\nb", "a.b[0]", "run.oci.systemd.subgroup"),
        *(f"org.systemd.property.{name}" for name in PROPERTIES),
    ),
    "linux.netDevices": ("eth9", "lo", "x" * 20, "a/b"),
    "linux.resources.rdma": ("mlx5_0", "", "a b"),
    "linux.resources.unified": (
        *("pids.max", "memory.max", "nosuch.max", "cgroup.max.depth", "a/b", "..", "", "x\ny"),
    ),
    "linux.sysctl": (
        *("net.ipv4.ip_forward", "net/ipv4/ip_forward", "kernel.msgmax", "kernel.shm_rmid_forced"),
        *("kernel.hostname", "kernel.domainname", "kernel.panic", "user.max_user_namespaces"),
        *("fs.mqueue.msg_max", "net..x", "net.ipv4.no_such", "", "kernel.\n", 'net.a"b'),
    ),
}
