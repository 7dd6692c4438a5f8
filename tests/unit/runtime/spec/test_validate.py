"""Rules between members: accepted configs, and warnings.

What they refuse is in tests/errors.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.spec.default_config import default_config
from ociruntime.runtime.spec.load_config import parse_config
from ociruntime.runtime.spec.validate import validate
from tests.errors.changes import BIND, Change, add, both, drop, mapped, put, without_namespace

ONE = [{"containerID": 0, "hostID": 5, "size": 1}]


def warnings(change: Change) -> list[str]:
    config = default_config()
    change(config)
    return validate(parse_config(json.dumps(config).encode()))


ACCEPTED: dict[str, Change] = {
    "no process": drop("process"),
    "no mounts": drop("mounts"),
    "empty hostname without uts": both(without_namespace("uts"), put("hostname", to="")),
    "unknown key": put("x-process", to={}),
    "hostname of 64 bytes": put("hostname", to="x" * 64),
    "joined uts": put("linux", "namespaces", 3, "path", to="/proc/1/ns/uts"),
    "env with = in the value": add("process", "env", item="A=b=c"),
    "empty env value": add("process", "env", item="A="),
    "env twice": both(add("process", "env", item="A=1"), add("process", "env", item="A=2")),
    "rlimit without bound": put(
        "process", "rlimits", 0, to={"type": "RLIMIT_CORE", "soft": 2**64 - 1, "hard": 2**64 - 1}
    ),
    "console size without terminal": put(
        "process", "consoleSize", to={"height": 65535, "width": 0}
    ),
    "affinity": put("process", "execCPUAffinity", to={"initial": "0-3,7", "final": ""}),
    "relative bind": add("mounts", item={**BIND, "source": "data"}),
    "bind without type": add(
        "mounts", item={"destination": "/x", "source": "/etc", "options": ["bind"]}
    ),
    "remount": add("mounts", item={"destination": "/", "options": ["remount", "bind", "ro"]}),
    "idmap by the container's user namespace": both(
        mapped(), add("mounts", item={**BIND, "options": ["rbind", "idmap"]})
    ),
    "idmap of its own": add(
        "mounts",
        item={**BIND, "options": ["rbind", "ridmap"], "uidMappings": ONE, "gidMappings": ONE},
    ),
    "mapping up to the last id": mapped(hostID=4294967295 - 65536),
    "user namespace joined, without mappings": add(
        "linux", "namespaces", item={"type": "user", "path": "/proc/1/ns/user"}
    ),
    "user namespace joined, with mappings": both(
        mapped(), put("linux", "namespaces", 5, "path", to="/proc/1/ns/user")
    ),
    "adjacent ranges": both(
        mapped(),
        add("linux", "uidMappings", item={"containerID": 65536, "hostID": 99999, "size": 1}),
    ),
    "time offsets": both(
        add("linux", "namespaces", item={"type": "time"}),
        put("linux", "timeOffsets", to={"monotonic": {"secs": -5, "nanosecs": 999999999}}),
    ),
    "net device with a template": put("linux", "netDevices", to={"eth7": {"name": "eth%d"}}),
    "net device under its own name": put("linux", "netDevices", to={"eth7": {}, "eth8": {}}),
    "fifo without numbers": put("linux", "devices", to=[{"type": "p", "path": "/dev/pipe"}]),
    "default device repeated": put(
        "linux",
        "devices",
        to=[{"type": "u", "path": "/dev/null", "major": 1, "minor": 3, "fileMode": 0o20666}],
    ),
    "cgroup by slice": put("linux", "cgroupsPath", to="system.slice:docker:0123"),
    "cgroup with dots": put("linux", "cgroupsPath", to="/a..b/..c"),
    "sysctl": put(
        "linux",
        "sysctl",
        to={"net.ipv4.ip_forward": "1", "net/ipv4/conf/eth0.1/mtu": "9", "kernel.shmmax": "7"},
    ),
    "sysctls of the kernel's that namespaces hold": put(
        "linux", "sysctl", to={"kernel.msg_next_id": "7", "kernel.ns_last_pid": "99"}
    ),
    "sysctl of user namespaces": both(
        mapped(), put("linux", "sysctl", to={"user.max_user_namespaces": "1"})
    ),
    "burst without a quota": put("linux", "resources", "cpu", to={"quota": -1, "burst": 9}),
    "no swap limit": put("linux", "resources", "memory", to={"limit": 9000, "swap": -1}),
    "no pids": put("linux", "resources", "pids", to={"limit": 0}),
    "pids without a limit": put("linux", "resources", "pids", to={}),
    "page sizes": put(
        "linux", "resources", "hugepageLimits", to=[{"pageSize": "64KB", "limit": 2**63}]
    ),
    "any unified file": put("linux", "resources", "unified", to={"nosuch.max": "1\n2"}),
    "rootfs propagation as engines spell it": put("linux", "rootfsPropagation", to="rslave"),
    "memory policy": put(
        "linux",
        "memoryPolicy",
        to={"mode": "MPOL_BIND", "nodes": "0", "flags": ["MPOL_F_STATIC_NODES"]},
    ),
    "root group of resctrl": put("linux", "intelRdt", to={"closID": "/"}),
    "removed members of intelRdt": put("linux", "intelRdt", to={"enableCMT": 5}),
    "listener without notify": put(
        "linux", "seccomp", to={"defaultAction": "SCMP_ACT_ALLOW", "listenerPath": "/nope"}
    ),
    "errno of the default": put(
        "linux", "seccomp", to={"defaultAction": "SCMP_ACT_TRACE", "defaultErrnoRet": 65535}
    ),
}


@pytest.mark.parametrize("change", ACCEPTED.values(), ids=ACCEPTED)
def test_accepted(change: Change) -> None:
    assert warnings(change) == []


def test_without_linux() -> None:
    """A-102: then no setting needs a namespace."""
    config = {"ociVersion": "1.0.0", "root": {"path": "/"}}
    assert validate(parse_config(json.dumps(config).encode())) == []


WARNED: dict[str, tuple[Change, str]] = {
    "newer version": (put("ociVersion", to="1.99.0"), "ociVersion 1.99.0 is newer than 1.3.0"),
    "capability": (
        add("process", "capabilities", "bounding", item="CAP_KILLL"),
        'bounding[3]: unknown capability "CAP_KILLL" is ignored (did you mean "CAP_KILL"?)',
    ),
    "relative destination": (
        put("mounts", 1, "destination", to="dev"),
        'mounts[1].destination: "dev" is relative',
    ),
    "mappings without idmap": (
        add("mounts", item={**BIND, "uidMappings": ONE, "gidMappings": ONE}),
        "mounts[7]: ",
    ),
    "schema of another resource than the cache": (
        put("linux", "intelRdt", to={"l3CacheSchema": "L2:0=f"}),
        "linux.intelRdt.l3CacheSchema: ",
    ),
    "cache schema": (
        put("linux", "intelRdt", to={"l3CacheSchema": "L3:0=f\nMB:0=20"}),
        "linux.intelRdt.l3CacheSchema: ",
    ),
}


@pytest.mark.parametrize(("change", "words"), WARNED.values(), ids=WARNED)
def test_warned(change: Change, words: str) -> None:
    (warning,) = warnings(change)
    assert words in warning


def test_unknown_capability_is_named_once() -> None:
    """CFG-CAP-01."""

    def change(config: dict[str, Any]) -> None:
        for names in config["process"]["capabilities"].values():
            names.append("CAP_BOGUS_ONE")

    assert len(warnings(change)) == 1


MORE_REFUSED: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "root empty": (put("root", "path", to=""), "root.path: "),
    "destination empty": (put("mounts", 0, "destination", to=""), "mounts[0].destination: must"),
    "domainname without uts": (
        both(without_namespace("uts"), drop("hostname"), put("domainname", to="x")),
        "domainname: ",
    ),
    "gid not mapped": (
        both(mapped(), put("process", "user", "additionalGids", to=[0, 65536])),
        "process.user.additionalGids[1]: 65536 is not mapped",
    ),
    "too many mappings": (
        both(
            mapped(),
            put(
                "linux",
                "uidMappings",
                to=[{"containerID": n, "hostID": n, "size": 1} for n in range(341)],
            ),
        ),
        "linux.uidMappings: has 341 entries",
    ),
    "host ranges overlap": (
        both(
            mapped(),
            add("linux", "gidMappings", item={"containerID": 70000, "hostID": 100009, "size": 1}),
        ),
        "linux.gidMappings[1].hostID: ",
    ),
    "offsets of a joined time namespace": (
        both(
            add("linux", "namespaces", item={"type": "time", "path": "/proc/1/ns/time"}),
            put("linux", "timeOffsets", to={"monotonic": {"secs": 1}}),
        ),
        "linux.timeOffsets: ",
    ),
    "net devices under one name": (
        put("linux", "netDevices", to={"eth7": {"name": "x0"}, "eth8": {"name": "x0"}}),
        'linux.netDevices["eth8"].name: "x0"',
    ),
    "net device with two templates": (
        put("linux", "netDevices", to={"eth7": {"name": "a%d%d"}}),
        'linux.netDevices["eth7"].name: "a%d%d"',
    ),
    "user sysctl without user namespace": (
        put("linux", "sysctl", to={"user.max_net_namespaces": "1"}),
        'linux.sysctl["user.max_net_namespaces"]: ',
    ),
    "notify as default, without an agent": (
        put("linux", "seccomp", to={"defaultAction": "SCMP_ACT_NOTIFY"}),
        "linux.seccomp.listenerPath: is missing (linux.seccomp.defaultAction is SCMP_ACT_NOTIFY",
    ),
    "errno too large": (
        put("linux", "seccomp", to={"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 4096}),
        "linux.seccomp.defaultErrnoRet: ",
    ),
    "nodes of the local policy": (
        put("linux", "memoryPolicy", to={"mode": "MPOL_LOCAL", "nodes": "0"}),
        "linux.memoryPolicy.nodes: the mode MPOL_LOCAL takes no nodes",
    ),
    "schema of another resource than the bandwidth": (
        put("linux", "intelRdt", to={"memBwSchema": "L3:0=f"}),
        "linux.intelRdt.memBwSchema: ",
    ),
    "lines of the bandwidth's schema": (
        put("linux", "intelRdt", to={"memBwSchema": "MB:0=20\nMB:1=20"}),
        "linux.intelRdt.memBwSchema: ",
    ),
    "balancing between any nodes": (
        put(
            "linux",
            "memoryPolicy",
            to={"mode": "MPOL_INTERLEAVE", "nodes": "0", "flags": ["MPOL_F_NUMA_BALANCING"]},
        ),
        "linux.memoryPolicy.flags: MPOL_F_NUMA_BALANCING requires mode MPOL_BIND",
    ),
    "meaning of no nodes": (
        put(
            "linux",
            "memoryPolicy",
            to={"mode": "MPOL_PREFERRED", "flags": ["MPOL_F_STATIC_NODES"]},
        ),
        "linux.memoryPolicy.flags: MPOL_F_STATIC_NODES requires nodes",
    ),
    "lines of a schema": (
        put("linux", "intelRdt", to={"schemata": ["L3:0=f", "MB:0=1\nL3:0=1"]}),
        "linux.intelRdt.schemata[1]: ",
    ),
}


@pytest.mark.parametrize(("change", "words"), MORE_REFUSED.values(), ids=MORE_REFUSED)
def test_refused(change: Change, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        warnings(change)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("dropped", "where"),
    [
        ((), "mounts"),
        ((("mounts",),), "root.readonly"),
        ((("mounts",), ("root", "readonly")), "linux.maskedPaths"),
    ],
)
def test_mounts_without_a_mount_namespace(dropped: tuple[tuple[str, ...], ...], where: str) -> None:
    (warning,) = warnings(both(without_namespace("mount"), *(drop(*steps) for steps in dropped)))
    assert warning.startswith(f"{where}: ")
