"""Configurations that the specification forbids and that both runc and crun run: so do we.

Each is what one mistake makes of the default configuration: a name, the change, and words of the
warning.
"""

from __future__ import annotations

from tests.errors.changes import BIND, Change, add, both, drop, put

RULE = {"names": ["mkdir"], "action": "SCMP_ACT_ERRNO"}
FILTER = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [RULE]}
HOOK = {"path": "/bin/true", "env": ["A=1", "B"]}
LIMIT = {"type": "RLIMIT_NOFILE", "soft": 512, "hard": 512}

TOLERATED: tuple[tuple[str, Change, str], ...] = (
    ("version", put("ociVersion", to="1.0"), "ociVersion"),
    ("empty-key", put("annotations", to={"": "x"}), "annotations"),
    ("user", drop("process", "user"), "process.user: is missing"),
    ("uid", drop("process", "user", "uid"), "process.user.uid: is missing"),
    ("gid", drop("process", "user", "gid"), "process.user.gid: is missing"),
    (
        "io-priority",
        put("process", "ioPriority", to={"class": "IOPRIO_CLASS_BE"}),
        "process.ioPriority.priority",
    ),
    ("rlimit-twice", add("process", "rlimits", item=LIMIT), "process.rlimits"),
    (
        "console-size",
        put("process", "consoleSize", to={"height": 70000}),
        "process.consoleSize.height",
    ),
    ("hook-environment", add("hooks", "poststop", item=HOOK), "hooks.poststop[0].env"),
    ("masked-relative", add("linux", "maskedPaths", item="proc/x"), "linux.maskedPaths[10]"),
    ("masked-empty", add("linux", "maskedPaths", item=""), "linux.maskedPaths"),
    (
        "personality-flag",
        put("linux", "personality", to={"domain": "LINUX", "flags": ["X"]}),
        "linux.personality.flags",
    ),
    (
        "device-numbers",
        put("linux", "devices", to=[{"type": "c", "path": "/dev/x"}]),
        "linux.devices[0].major",
    ),
    (
        "cgroups-path",
        put("linux", "cgroupsPath", to="/tolerated/../tolerated-dots"),
        "linux.cgroupsPath",
    ),
    (
        "device-rule",
        drop("linux", "resources", "devices", 0, "allow"),
        "linux.resources.devices[0].allow",
    ),
    (
        "device-rule-access",
        put("linux", "resources", "devices", 0, to={"allow": False, "access": "rx"}),
        "linux.resources.devices[0].access",
    ),
    (
        "device-twice",
        put(
            "linux",
            "devices",
            to=[
                {"type": "c", "path": "/dev/x", "major": 1, "minor": 3},
                {"type": "c", "path": "/dev/x", "major": 1, "minor": 5},
            ],
        ),
        "linux.devices[1].path",
    ),
    (
        "sysctl-lines",
        put("linux", "sysctl", to={"net.ipv4.ip_forward": "1\n2"}),
        'linux.sysctl["net.ipv4.ip_forward"]',
    ),
    (
        "seccomp-names",
        put("linux", "seccomp", to={**FILTER, "syscalls": [{**RULE, "names": []}]}),
        "linux.seccomp.syscalls[0]",
    ),
    (
        "seccomp-metadata",
        put("linux", "seccomp", to={**FILTER, "listenerMetadata": "x"}),
        "linux.seccomp.listenerMetadata",
    ),
    (
        "bind-option",
        add("mounts", item={**BIND, "destination": "/tmp", "options": ["rbind", "delegated"]}),
        "mounts[7].options[1]",
    ),
    (
        "several",
        both(drop("process", "user", "gid"), put("annotations", to={"": "x"})),
        "process.user.gid",
    ),
)
