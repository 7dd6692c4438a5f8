"""Build bundles: a realistic config.json as a dictionary that a test edits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Json = dict[str, Any]

PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CAPABILITIES = ("CAP_AUDIT_WRITE", "CAP_KILL", "CAP_NET_BIND_SERVICE")
NAMESPACES = ("pid", "network", "ipc", "uts", "mount")
MASKED = ("/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware")
READONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")


def mount_entry(destination: str, fstype: str, source: str, *options: str) -> Json:
    """Return a member of ``mounts``; without options, the key is missing."""
    entry: Json = {"destination": destination, "type": fstype, "source": source}
    if options:
        entry["options"] = list(options)
    return entry


def base_mounts() -> list[Json]:
    """Return the mounts that an engine adds to an ordinary container, without a cgroup mount."""
    safe = ("nosuid", "noexec", "nodev")
    pts = ("nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5")
    return [
        mount_entry("/proc", "proc", "proc", *safe),
        mount_entry("/dev", "tmpfs", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k"),
        mount_entry("/dev/pts", "devpts", "devpts", *pts),
        mount_entry("/dev/shm", "tmpfs", "shm", *safe, "mode=1777", "size=65536k"),
        mount_entry("/dev/mqueue", "mqueue", "mqueue", *safe),
        mount_entry("/sys", "sysfs", "sysfs", *safe, "ro"),
    ]


def base_config(args: tuple[str, ...]) -> Json:
    """Return a config.json like that of ``spec``, without a terminal and with a writable root."""
    capabilities = {kind: list(CAPABILITIES) for kind in ("bounding", "effective", "permitted")}
    return {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0},
            "args": list(args),
            "env": [PATH, "TERM=xterm"],
            "cwd": "/",
            "capabilities": capabilities,
            "noNewPrivileges": True,
        },
        "root": {"path": "rootfs"},
        "hostname": "testbox",
        "mounts": base_mounts(),
        "linux": {
            "resources": {"devices": [{"allow": False, "access": "rwm"}]},
            "namespaces": [{"type": kind} for kind in NAMESPACES],
            "maskedPaths": list(MASKED),
            "readonlyPaths": list(READONLY),
        },
    }


class Bundle:
    """A bundle directory and its config, written out by ``save`` (a container does it)."""

    def __init__(self, path: Path, args: tuple[str, ...]) -> None:
        self.path = path
        self.rootfs = path / "rootfs"
        self.config: Json = base_config(args)

    @property
    def process(self) -> Json:
        process: Json = self.config["process"]
        return process

    @property
    def linux(self) -> Json:
        linux: Json = self.config["linux"]
        return linux

    @property
    def resources(self) -> Json:
        resources: Json = self.linux["resources"]
        return resources

    @property
    def hooks(self) -> Json:
        hooks: Json = self.config.setdefault("hooks", {})
        return hooks

    def args(self, *args: str) -> Bundle:
        self.process["args"] = list(args)
        return self

    def shell(self, script: str) -> Bundle:
        return self.args("sh", "-c", script)

    def mount(self, destination: str, fstype: str, source: str, *options: str) -> Bundle:
        """Append a mount."""
        self.config["mounts"].append(mount_entry(destination, fstype, source, *options))
        return self

    def bind(self, source: Path | str, destination: str, *options: str) -> Bundle:
        """Append a bind mount; ``rbind`` unless ``bind`` is among the options."""
        kind = () if "bind" in options else ("rbind",)
        return self.mount(destination, "bind", str(source), *kind, *options)

    def namespace(self, kind: str, path: str | None = None) -> Bundle:
        """Add a namespace of that type, new or by path; replaces an earlier entry."""
        self.without_namespace(kind)
        entry = {"type": kind}
        if path is not None:
            entry["path"] = path
        self.linux["namespaces"].append(entry)
        return self

    def without_namespace(self, kind: str) -> Bundle:
        self.linux["namespaces"] = [n for n in self.linux["namespaces"] if n["type"] != kind]
        return self

    def capabilities(self, *names: str, ambient: tuple[str, ...] = ()) -> Bundle:
        """Set bounding, effective, permitted; inheritable as needed for ambient."""
        sets = {kind: list(names) for kind in ("bounding", "effective", "permitted")}
        sets["inheritable"] = list(ambient)
        sets["ambient"] = list(ambient)
        self.process["capabilities"] = sets
        return self

    def user_namespace(self, host_id: int = 100000, size: int = 65536) -> Bundle:
        """Add a user namespace with one range for both kinds of ids; chown the root to it."""
        import os

        self.namespace("user")
        mapping = {"containerID": 0, "hostID": host_id, "size": size}
        self.linux["uidMappings"] = [dict(mapping)]
        self.linux["gidMappings"] = [dict(mapping)]
        for place, directories, _ in os.walk(self.rootfs):
            for name in ["", *directories]:
                os.chown(os.path.join(place, name), host_id, host_id, follow_symlinks=False)
        return self

    def save(self) -> Bundle:
        """Write config.json."""
        (self.path / "config.json").write_text(json.dumps(self.config, indent=1))
        return self
