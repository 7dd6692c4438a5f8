"""Make generated configs safe to run on a real host: nothing reaches outside the bundle.

A config decides what root does on the host, such as where it creates mount points and devices.
"""

from __future__ import annotations

import copy

from tests.properties.fields import Json

# What binds may show: places where nothing is spoilt by an added mount point or device.
_SOURCES = ("rootfs/etc", "rootfs/etc/passwd", "nothing", "")
_NAMESPACES = (
    "/proc/",
    "/run/",
    "/var/",
)  # those of the host would have their names and parameters changed


def harmless(config: Json, cgroup: str) -> Json:
    """Return a copy for a container whose cgroups are below ``cgroup`` (a name)."""
    made = copy.deepcopy(config)
    if not isinstance(made, dict):
        return made
    root = made.get("root")
    if isinstance(root, dict) and isinstance(root.get("path"), str):
        inside = root["path"].startswith(("rootfs", "./rootfs"))
        root["path"] = root["path"] if inside or not root["path"] else "rootfs"
    for mount in _objects(made.get("mounts")):
        _mount(mount)
    linux = made.get("linux")
    if isinstance(linux, dict):
        _linux(linux, cgroup)
    return made


def _mount(mount: dict[str, Json]) -> None:
    options = mount.get("options")
    binds = isinstance(options, list) and ("bind" in options or "rbind" in options)
    if binds and isinstance(mount.get("source"), str) and mount["source"] not in _SOURCES:
        mount["source"] = "rootfs/etc"


def _linux(linux: dict[str, Json], cgroup: str) -> None:
    path = linux.get("cgroupsPath", "")
    if isinstance(path, str):
        # Refused ones may be as they are.
        odd = any(word in path for word in ("..", "\n", ":")) or path in {"/", "."}
        linux["cgroupsPath"] = path if odd else f"/{cgroup}/{path}"
    for namespace in _objects(linux.get("namespaces")):
        if str(namespace.get("path")).startswith(_NAMESPACES):
            del namespace["path"]
    resources = linux.get("resources")
    unified = resources.get("unified") if isinstance(resources, dict) else None
    if isinstance(unified, dict):
        # Json process can be named there.
        for file in [name for name in unified if str(name).startswith("cgroup.")]:
            del unified[file]


def _objects(value: Json) -> list[dict[str, Json]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
