"""Convert an image's configuration to the form of the pod's manifest; pure."""

from __future__ import annotations

from ociruntime.base.paths import clean
from ociruntime.pods.manifest.names import volume_of_path
from ociruntime.pods.manifest.ports import port_of_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def ports_of(settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the exposed ports; SCTP and others are dropped, as they cannot be forwarded."""
    found: dict[str, dict[str, Any]] = {}
    for text in settings.get("ExposedPorts") or {}:
        try:
            port = port_of_name(text)
        except ValueError:
            continue
        found[port["name"]] = port
    return list(found.values())


def mount_points_of(settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the image's volumes as mount points with unique names."""
    points: dict[str, dict[str, Any]] = {}
    names: set[str] = set()
    for text in settings.get("Volumes") or {}:
        path = clean(text)
        if path == "/" or path in points:
            continue
        plain = name = volume_of_path(path)
        number = 1
        while name in names:
            number += 1
            name = f"{plain}-{number}"
        names.add(name)
        points[path] = {"name": name, "path": path, "readOnly": False}
    return list(points.values())


def environment_of(settings: dict[str, Any]) -> dict[str, str]:
    """Return the image's variables; entries that are not NAME=VALUE are ignored."""
    found = {}
    for line in settings.get("Env") or ():
        name, equals, value = line.partition("=")
        if name and equals:
            found[name] = value
    return found


def labels_of(config: dict[str, Any]) -> list[dict[str, str]]:
    """Return the image's platform (os, arch, ...) as labels of the manifest."""
    kinds = (("os", "os"), ("architecture", "arch"), ("variant", "variant"))
    return [{"name": name, "value": config[key]} for key, name in kinds if config.get(key)]
