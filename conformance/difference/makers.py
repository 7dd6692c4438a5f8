"""Building blocks of random configs: functions that return a random edit of one or more fields."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from conformance.bundle import Json, mount_entry
from conformance.difference.edits import Edit, edit

CAPABILITIES = """
    CAP_CHOWN CAP_DAC_OVERRIDE CAP_FOWNER CAP_FSETID CAP_SETUID CAP_SETGID CAP_SETPCAP CAP_NET_RAW
    CAP_SYS_CHROOT CAP_MKNOD CAP_AUDIT_WRITE CAP_SETFCAP
""".split()
SETS = ("bounding", "effective", "permitted", "inheritable", "ambient")
# LARGE_LIMITS get large values, because small ones would kill the probe.
LIMITS = """
    RLIMIT_CORE RLIMIT_NOFILE RLIMIT_NPROC RLIMIT_MSGQUEUE RLIMIT_LOCKS RLIMIT_MEMLOCK
    RLIMIT_SIGPENDING RLIMIT_RTPRIO RLIMIT_NICE
""".split()
LARGE_LIMITS = "RLIMIT_AS RLIMIT_CPU RLIMIT_DATA RLIMIT_FSIZE RLIMIT_RSS RLIMIT_STACK".split()
PATHS = ("/proc/kcore", "/proc/sys", "/etc/passwd", "/etc", "/usr", "/proc/nothing", "/dev/null")
PLACES = ("/tmp", "/run", "/var/deep/er", "/dev/shm", "/mnt", "usr")
FLAGS = (
    *("nosuid", "nodev", "noexec", "ro", "relatime", "noatime", "strictatime", "sync", "dirsync"),
    *("nodiratime", "rw", "suid", "dev", "exec", "atime", "defaults", "lazytime", "nosymfollow"),
)
RECURSIVE = (
    "rro",
    "rrw",
    "rnosuid",
    "rnodev",
    "rnoexec",
    "rnoatime",
    "rrelatime",
    "rsuid",
    "rexec",
)
PROPAGATION = ("private", "rprivate", "slave", "rslave", "shared", "rshared", "unbindable")
TMPFS = ("size=64k", "size=1m", "mode=700", "mode=1777", "nr_inodes=100")
INHERITED = ("ipc", "uts", "network", "pid")
SYSCTLS = {"net.ipv4.ip_forward": "1", "kernel.msgmax": "4096", "fs.mqueue.msg_max": "20"}
HOOKS = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
# Stands for the namespace of another container; see stage.py.
OTHER = "/OTHER"
# A mount on the host with another below it; see stage.py.
TREE = "/TREE"
CALLS = ("chmod", "mkdir", "personality", "sethostname", "mount", "io_uring_setup")

RESOURCES: dict[str, tuple[Any, ...]] = {
    "memory": (
        {"limit": 1 << 27},
        {"limit": 1 << 27, "reservation": 1 << 26},
        {"limit": 1 << 27, "swap": 1 << 28},
        {"limit": 1 << 27, "swap": -1},
        {"limit": -1},
        {"swappiness": 0},
        {"swappiness": 60, "limit": 1 << 28},
        {"disableOOMKiller": True},
        {"disableOOMKiller": False},
        {"kernelTCP": 1 << 24},
        {},
    ),
    "cpu": (
        {"shares": 512},
        {"shares": 2},
        {"shares": 0},
        {"quota": 50000},
        {"quota": 50000, "period": 200000},
        {"period": 50000},
        {"quota": -1},
        {"quota": 50000, "burst": 10000},
        {"cpus": "0", "mems": "0"},
        {"cpus": "0-1"},
        {"cpus": ""},
        {"realtimeRuntime": 0},
        {"realtimePeriod": 1000000, "realtimeRuntime": 0},
        {"idle": 1},
    ),
    "pids": ({"limit": 50}, {"limit": -1}, {"limit": 0}, {"limit": 1}),
    "hugepageLimits": ([{"pageSize": "2MB", "limit": 1 << 22}], []),
    "network": ({"classID": 5}, {"priorities": [{"name": "lo", "priority": 3}]}, {}),
    "blockIO": ({"weight": 300}, {"weight": 0}, {}),
    "devices": (
        [],
        [{"allow": False, "access": "rwm"}],
        [{"allow": True, "access": "rwm"}],
        [{"allow": False}, {"allow": True, "type": "c", "major": 1, "minor": 3, "access": "r"}],
        [{"allow": False, "type": "c", "major": 1, "minor": 5, "access": "w"}],
        [
            {"allow": False, "access": "rwm"},
            {"allow": True, "type": "c", "major": 10, "minor": 229, "access": "rw"},
        ],
    ),
    "unified": ({}, {"cgroup.max.depth": "3"}),
}
MEMORY_POLICY = ({"mode": "MPOL_BIND", "nodes": "0"}, {"mode": "MPOL_LOCAL"})

Random = random.Random
# A maker returns several edits if one requires another.
Maker = Callable[[Random], Edit | tuple[Edit, ...]]


def _set(where: str, *values: Any) -> Maker:
    return lambda chance: edit(where, "set", chance.choice(values))


def _append(where: str, make: Callable[[Random], Any]) -> Maker:
    return lambda chance: edit(where, "append", make(chance))


def _some(chance: Random, values: tuple[str, ...] | list[str], most: int) -> list[str]:
    return chance.sample(values, chance.randint(0, min(most, len(values))))


def _tmpfs(chance: Random) -> Json:
    options = [*_some(chance, FLAGS, 3), *_some(chance, TMPFS, 1), *_some(chance, PROPAGATION, 1)]
    options += ["tmpcopyup"] if chance.random() < 0.2 else []
    return mount_entry(chance.choice((*PLACES, "/etc")), "tmpfs", "tmpfs", *options)


def _bind(chance: Random) -> Json:
    source = chance.choice(("rootfs/etc", "rootfs/etc/passwd", "rootfs/out"))
    options = [*_some(chance, FLAGS, 3), *_some(chance, PROPAGATION, 1)]
    kind = chance.choice(("bind", "rbind"))
    target = "/mnt/file" if source.endswith("passwd") else chance.choice(("/mnt/dir", "/var"))
    return mount_entry(target, chance.choice(("bind", None)), source, kind, *options)


def _tree(chance: Random) -> Json:
    options = [
        *_some(chance, RECURSIVE, 2),
        *_some(chance, FLAGS, 2),
        *_some(chance, PROPAGATION, 1),
    ]
    return mount_entry("/mnt/tree", "bind", TREE, chance.choice(("bind", "rbind")), *options)


def _remount(chance: Random) -> Json:
    place, flag = chance.choice((("/proc", "ro"), ("/dev", "noexec"), ("/dev", "ro")))
    return mount_entry(place, None, None, "bind", "remount", flag)


def _system(chance: Random) -> Json:
    places = (("sysfs", "/sys"), ("mqueue", "/dev/mqueue"), ("proc", "/mnt"), ("devpts", "/mnt"))
    kind, place = chance.choice(places)
    return mount_entry(place, kind, kind, *_some(chance, FLAGS[:5], 3))


def _device(chance: Random) -> Json:
    entry: Json = {"path": chance.choice(("/dev/one", "/dev/sub/two", "/out/three"))}
    entry |= chance.choice(
        (
            {"type": "c", "major": 1, "minor": 3},
            {"type": "p"},
            {"type": "u", "major": 1, "minor": 5},
            {"type": "c", "major": 10, "minor": 229},
            {"type": "b", "major": 7, "minor": 0},
        )
    )
    for key, value in (("fileMode", 0o640), ("uid", 5), ("gid", 6)):
        if chance.random() < 0.5:
            entry[key] = value
    return entry


def _limit(chance: Random) -> Json:
    if chance.random() < 0.3:
        return {"type": chance.choice(LARGE_LIMITS), "soft": 1 << 30, "hard": 1 << 31}
    soft = chance.choice((0, 64))
    return {"type": chance.choice(LIMITS), "soft": soft, "hard": soft + chance.choice((0, 24))}


def _user(chance: Random) -> Edit:
    user: Json = {"uid": chance.choice((0, 1, 1000, 54321)), "gid": chance.choice((0, 7, 1000))}
    if chance.random() < 0.5:
        user["additionalGids"] = chance.sample((0, 1, 8, 1000), 2)
    if chance.random() < 0.5:
        user["umask"] = chance.choice((0, 0o27, 0o777))
    return edit("process.user", "set", user)


def _capabilities(chance: Random) -> Edit:
    sets = {kind: sorted(_some(chance, CAPABILITIES, 4)) for kind in SETS}
    # The kernel's rule: effective and ambient within permitted and inheritable.
    sets["permitted"] = sorted({*sets["effective"], *sets["permitted"], *sets["ambient"]})
    sets["inheritable"] = sorted({*sets["inheritable"], *sets["ambient"]})
    sets["bounding"] = sorted({*sets["bounding"], *sets["permitted"], *sets["inheritable"]})
    return edit("process.capabilities", "set", sets)


def _seccomp(chance: Random) -> Edit:
    rules = [_rule(chance) for _ in range(chance.randint(0, 3))]
    default = chance.choice(("SCMP_ACT_ALLOW", "SCMP_ACT_ALLOW", "SCMP_ACT_LOG"))
    profile: Json = {"defaultAction": default, "syscalls": rules}
    if chance.random() < 0.5:
        native = ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"]
        profile["architectures"] = native[: chance.randint(1, 3)]
    if chance.random() < 0.3:
        profile["flags"] = _some(chance, ["SECCOMP_FILTER_FLAG_LOG"], 1)
    return edit("linux.seccomp", "set", profile)


def _rule(chance: Random) -> Json:
    action = chance.choice(("SCMP_ACT_ERRNO", "SCMP_ACT_ERRNO", "SCMP_ACT_TRACE", "SCMP_ACT_LOG"))
    rule: Json = {"names": [*chance.sample(CALLS, 2), "no_such_call"], "action": action}
    if action == "SCMP_ACT_ERRNO" and chance.random() < 0.5:
        rule["errnoRet"] = chance.choice((38, 13, 0))
    if chance.random() < 0.4:
        # The tries of observe.py have 0, 7 and a number of more than 32 bits there.
        operators = ("NE", "LT", "LE", "EQ", "GE", "GT", "MASKED_EQ")
        condition: Json = {
            "index": chance.choice((0, 1)),
            "op": f"SCMP_CMP_{chance.choice(operators)}",
        }
        condition["value"] = chance.choice((0, 7, 1 << 33))
        if condition["op"].endswith("MASKED_EQ"):
            condition["valueTwo"] = chance.choice((0, 7))
        rule["args"] = [condition]
    return rule


def _hook(chance: Random) -> Edit:
    entry: Json = {}
    if chance.random() < 0.4:
        entry["env"] = _some(chance, ["A=1", "B="], 2)
    if chance.random() < 0.3:
        entry["timeout"] = 10
    return edit(f"hooks.{chance.choice(HOOKS)}", "append", entry)


def _time(chance: Random) -> tuple[Edit, ...]:
    clocks = {name: {"secs": chance.choice((7200, 864000))} for name in ("boottime", "monotonic")}
    if chance.random() < 0.3:
        del clocks["monotonic"]
    return (
        edit("linux.namespaces", "append", {"type": "time"}),
        edit("linux.timeOffsets", "set", clocks),
    )


def _user_namespace(chance: Random) -> tuple[Edit, ...]:
    whole = [{"containerID": 0, "hostID": 100000, "size": 65536}]
    parts = [
        {"containerID": 0, "hostID": 100000, "size": 1000},
        {"containerID": 1000, "hostID": 300000, "size": 64000},
    ]
    maps = chance.choice((whole, parts))
    return (
        edit("linux.namespaces", "append", {"type": "user"}),
        edit("linux.uidMappings", "set", maps),
        edit("linux.gidMappings", "set", maps),
    )


def _joined(chance: Random) -> tuple[Edit, ...]:
    kind = chance.choice(INHERITED)
    return (
        edit("linux.namespaces", "remove", {"type": kind}),
        edit("linux.namespaces", "append", {"type": kind, "path": OTHER}),
    )


def _resources(chance: Random) -> Edit:
    part, values = chance.choice(sorted(RESOURCES.items()))
    return edit(f"linux.resources.{part}", "set", chance.choice(values))


def _sysctl(chance: Random) -> Edit:
    name = chance.choice(sorted(SYSCTLS))
    return Edit(("linux", "sysctl", name), "set", json.dumps(SYSCTLS[name]))


MAKERS: tuple[Maker, ...] = (
    _append("mounts", _tmpfs),
    _append("mounts", _bind),
    _append("mounts", _system),
    _append("linux.devices", _device),
    _append("process.rlimits", _limit),
    _append("process.env", lambda chance: chance.choice(("A=1", "A=2", "HOME=/x", "EMPTY=", "B"))),
    _append("linux.maskedPaths", lambda chance: chance.choice(PATHS)),
    _append("linux.readonlyPaths", lambda chance: chance.choice(PATHS)),
    _append("linux.namespaces", lambda _chance: {"type": "cgroup"}),
    _time,
    _user_namespace,
    _joined,
    _resources,
    _resources,
    _hook,
    _append("mounts", _tree),
    _append("mounts", _remount),
    _user,
    _capabilities,
    _seccomp,
    _sysctl,
    lambda chance: edit("linux.namespaces", "remove", {"type": chance.choice(INHERITED)}),
    _set("hostname", "box", "a.b.c", ""),
    _set("domainname", "domain"),
    _set("process.cwd", "/tmp", "/made/for/it", "/usr/../etc", "//var/"),
    _set("process.noNewPrivileges", True, False),
    _set("process.oomScoreAdj", 0, 100, 1000),
    _set("root.readonly", True, False),
    _set("linux.rootfsPropagation", "private", "slave", "shared", "unbindable", "rshared"),
    _set("linux.personality", {"domain": "LINUX32"}, {"domain": "LINUX"}),
    _set("linux.memoryPolicy", *MEMORY_POLICY),
    _set("process.execCPUAffinity", {"initial": "0"}),
    _set("annotations", {"org.example.a": "1", "b": ""}, {}),
    _set("process.terminal", False),
    _set("process.rlimits", []),
    _set("vm", {"hypervisor": {"path": "/x"}}),
    _set("linux.mountLabel", ""),
    _set(
        "process.ioPriority",
        {"class": "IOPRIO_CLASS_BE", "priority": 6},
        {"class": "IOPRIO_CLASS_IDLE", "priority": 0},
    ),
    _set(
        "process.scheduler",
        {"policy": "SCHED_BATCH", "nice": 3},
        {"policy": "SCHED_OTHER"},
        {"policy": "SCHED_IDLE"},
    ),
)
