"""What an image's configuration says of the app that runs it: to the manifest's form; pure."""

from __future__ import annotations

from ociruntime.base.paths import clean
from ociruntime.pods.manifest.names import volume_of_path
from ociruntime.pods.manifest.ports import port_of_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def ports_of(settings: dict[str, Any]) -> list[dict[str, Any]]:
    """What the image says of its ports; others than of TCP and UDP cannot be forwarded anyway."""
    found: dict[str, dict[str, Any]] = {}
    for text in settings.get("ExposedPorts") or {}:
        try:
            port = port_of_name(text)
        except ValueError:
            continue
        found[port["name"]] = port
    return list(found.values())


def mount_points_of(settings: dict[str, Any]) -> list[dict[str, Any]]:
    """The image's volumes, each with a name of its own."""
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
    """The image's variables; what is no NAME=VALUE counts for nothing."""
    found = {}
    for line in settings.get("Env") or ():
        name, equals, value = line.partition("=")
        if name and equals:
            found[name] = value
    return found


def labels_of(config: dict[str, Any]) -> list[dict[str, str]]:
    """What the image was made for, as the manifest names it."""
    kinds = (("os", "os"), ("architecture", "arch"), ("variant", "variant"))
    return [{"name": name, "value": config[key]} for key, name in kinds if config.get(key)]
