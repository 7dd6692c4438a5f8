"""The minimal config.json that all runtimes accept, and its root filesystem."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

Json = dict[str, Any]

PROBE = "/bin/probe"
NAMESPACES = ("pid", "mount", "ipc", "uts", "network")
CAPABILITIES = ("CAP_AUDIT_WRITE", "CAP_KILL", "CAP_NET_BIND_SERVICE")
DIRECTORIES = ("bin", "dev", "etc", "out", "proc", "run", "sys", "tmp", "usr", "var")
FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/home:/bin/sh\n",
    "etc/group": "root:x:0:\nuser:x:1000:\n",
}


def mount_entry(destination: str, fstype: str | None, source: str | None, *options: str) -> Json:
    """Return an entry of ``mounts``, without members for None and empty options."""
    entry: Json = {"destination": destination}
    if fstype is not None:
        entry["type"] = fstype
    if source is not None:
        entry["source"] = source
    if options:
        entry["options"] = list(options)
    return entry


def config(version: str, cgroup: str | None, rootless: bool) -> Json:
    """Return a config with a sleeping probe in new namespaces, with /proc, /dev and /dev/pts.

    ``version`` is its ``ociVersion``, ``cgroup`` its ``cgroupsPath``.  ``rootless`` adds a user
    namespace.
    """
    document: Json = {
        "ociVersion": version,
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": [PROBE, "sleep"],
            "env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"],
            "cwd": "/",
            "capabilities": {
                kind: list(CAPABILITIES) for kind in ("bounding", "effective", "permitted")
            },
            "noNewPrivileges": True,
        },
        "root": {"path": "rootfs"},
        "mounts": [
            mount_entry("/proc", "proc", "proc", "nosuid", "noexec", "nodev"),
            mount_entry("/dev", "tmpfs", "tmpfs", "nosuid", "mode=755", "size=64k"),
            mount_entry(
                "/dev/pts",
                "devpts",
                "devpts",
                "nosuid",
                "noexec",
                "newinstance",
                "ptmxmode=0666",
                "mode=0620",
            ),
        ],
        "linux": {"namespaces": [{"type": kind} for kind in NAMESPACES]},
    }
    if cgroup is not None:
        document["linux"]["cgroupsPath"] = cgroup
    if rootless:
        linux = document["linux"]
        linux["namespaces"].append({"type": "user"})
        for kind, own in (("uidMappings", os.geteuid()), ("gidMappings", os.getegid())):
            linux[kind] = [{"containerID": 0, "hostID": own, "size": 1}]
    return document


def lay_out(rootfs: Path, probe: Path) -> None:
    """Create a root filesystem that contains only the probe; /out and /tmp are world-writable."""
    for name in DIRECTORIES:
        (rootfs / name).mkdir(parents=True)
    for name in ("out", "tmp"):
        (rootfs / name).chmod(0o1777)
    for name, text in FILES.items():
        (rootfs / name).write_text(text)
    try:
        os.link(probe, rootfs / PROBE[1:])
    except OSError:
        (rootfs / PROBE[1:]).write_bytes(probe.read_bytes())
        (rootfs / PROBE[1:]).chmod(0o755)


def merge(target: Json, changes: Json) -> None:
    """Merge ``changes`` into ``target``: objects member by member, all else replaced.

    A member with the value ABSENT is removed.
    """
    for key, value in changes.items():
        if value is ABSENT:
            target.pop(key, None)
        elif isinstance(value, dict) and isinstance(target.get(key), dict):
            merge(target[key], value)
        else:
            target[key] = _without_absent(value)


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Any = _Absent()


def _without_absent(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_absent(v) for k, v in value.items() if v is not ABSENT}
    return value
