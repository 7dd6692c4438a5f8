"""The default config.json that ``ociruntime spec`` writes: a shell in a container."""

from __future__ import annotations

from typing import Any

from ociruntime.runtime.spec.state_document import SPEC_VERSION

_CAPABILITIES = ("CAP_AUDIT_WRITE", "CAP_KILL", "CAP_NET_BIND_SERVICE")

# destination, type, source, options
_MOUNTS: tuple[tuple[str, str, str, str], ...] = (
    ("/proc", "proc", "proc", ""),
    ("/dev", "tmpfs", "tmpfs", "nosuid strictatime mode=755 size=65536k"),
    (
        "/dev/pts",
        "devpts",
        "devpts",
        "nosuid noexec newinstance ptmxmode=0666 mode=0620 gid=5",
    ),
    ("/dev/shm", "tmpfs", "shm", "nosuid noexec nodev mode=1777 size=65536k"),
    ("/dev/mqueue", "mqueue", "mqueue", "nosuid noexec nodev"),
    ("/sys", "sysfs", "sysfs", "nosuid noexec nodev ro"),
    ("/sys/fs/cgroup", "cgroup", "cgroup", "nosuid noexec nodev relatime ro"),
)

# Files that reveal data of the host, or change its settings.
_MASKED = (
    "/proc/acpi",
    "/proc/asound",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/sys/firmware",
    "/proc/scsi",
)
_READONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")


def default_config(rootless: bool = False, uid: int = 0, gid: int = 0) -> dict[str, Any]:
    """Return the default config, which runs a shell.

    ``rootless``: return a config for an unprivileged user, whose ``uid`` and ``gid`` become root in
    the container.
    """
    config: dict[str, Any] = {
        "ociVersion": SPEC_VERSION,
        "process": _process(),
        "root": {"path": "rootfs", "readonly": True},
        "hostname": "ociruntime",
        "mounts": [_mount(*row) for row in _MOUNTS],
        "linux": {
            "resources": {"devices": [{"allow": False, "access": "rwm"}]},
            "namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount")],
            "maskedPaths": list(_MASKED),
            "readonlyPaths": list(_READONLY),
        },
    }
    if rootless:
        _make_rootless(config, uid, gid)
    return config


def _process() -> dict[str, Any]:
    return {
        "terminal": True,
        "user": {"uid": 0, "gid": 0},
        "args": ["sh"],
        "env": [
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "TERM=xterm",
        ],
        "cwd": "/",
        "capabilities": {
            "bounding": list(_CAPABILITIES),
            "effective": list(_CAPABILITIES),
            "permitted": list(_CAPABILITIES),
        },
        "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 1024}],
        "noNewPrivileges": True,
    }


def _mount(destination: str, kind: str, source: str, options: str) -> dict[str, Any]:
    mount: dict[str, Any] = {"destination": destination, "type": kind, "source": source}
    if options:
        mount["options"] = options.split()
    return mount


def _make_rootless(config: dict[str, Any], uid: int, gid: int) -> None:
    """Change ``config`` for an unprivileged user.

    The container maps a single id, shares the host's network, and has no resource limits.
    """
    linux = config["linux"]
    linux["namespaces"] = [
        *(namespace for namespace in linux["namespaces"] if namespace["type"] != "network"),
        {"type": "user"},
    ]
    linux["uidMappings"] = [{"containerID": 0, "hostID": uid, "size": 1}]
    linux["gidMappings"] = [{"containerID": 0, "hostID": gid, "size": 1}]
    del linux["resources"]
    for mount in config["mounts"]:
        if mount["destination"] == "/dev/pts":
            mount["options"].remove("gid=5")  # the user namespace does not map gid 5
        if mount["destination"] == "/sys":
            # Mounting sysfs requires a new network namespace.
            options = ["rbind", *mount["options"]]
            mount.update(type="none", source="/sys", options=options)
