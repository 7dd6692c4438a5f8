"""Convert the manifest of an App Container Image to the configuration of an OCI image; pure.

Kept: exec, user, group, working directory, environment, ports, mount points, labels, annotations.
Refused, because the app would behave differently: event handlers.  Dropped, because an OCI
configuration cannot express them: names of ports and mount points, isolators, supplementary groups.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ociruntime.base.errors import ImageError
from ociruntime.images.model.image import Json
from ociruntime.images.model.reference import Reference, parse
from ociruntime.images.model.reference_parts import TAGS, is_tag

_ARCHITECTURES = {"amd64": "amd64", "i386": "386", "aarch64": "arm64", "armv7l": "arm"}
_ARCHITECTURES |= {"armv6l": "arm", "armv7b": "arm", "ppc64le": "ppc64le", "s390x": "s390x"}
_NAME = re.compile(r"[a-z0-9]+([-._~/][a-z0-9]+)*")
_MOST_PORTS = 1024


@dataclass(frozen=True, slots=True)
class AciManifest:
    """A parsed appc manifest; ``reference`` is the image's name in the store.

    ``dependencies`` are (reference in the store, id "sha512-..." or "").
    """

    name: str
    reference: Reference
    labels: dict[str, str]
    annotations: dict[str, str]
    app: Json
    dependencies: tuple[tuple[Reference, str], ...]
    whitelist: frozenset[str]


def read_aci_manifest(document: Json, what: str) -> AciManifest:
    """Parse and validate an appc manifest.  Raises ImageError."""
    if document.get("acKind") != "ImageManifest":
        raise ImageError(f"{what} is not the manifest of an App Container Image")
    name = document.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ImageError(f"{what}: invalid name {name!r}")
    labels = _pairs(document, "labels", what)
    if labels.get("os", "linux") != "linux":
        raise ImageError(f'{what}: unsupported os "{labels["os"]}"', "supported: linux")
    app = document.get("app") or {}
    if not isinstance(app, dict):
        raise ImageError(f"{what}: app must be an object")
    if app.get("eventHandlers"):
        raise ImageError(f"{what}: app.eventHandlers is not supported")
    paths = document.get("pathWhitelist") or []
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise ImageError(f"{what}: pathWhitelist must be a list of paths")
    found = _list(document, "dependencies", what)
    return AciManifest(
        name,
        _reference(name, labels, what),
        labels,
        _pairs(document, "annotations", what),
        app,
        tuple(_dependency(one, what) for one in found),
        frozenset(path.strip("/") for path in paths),
    )


def config_of(manifest: AciManifest, what: str) -> tuple[Json, Json]:
    """Return the OCI configuration as (platform and times, ``config``).  Raises ImageError."""
    app = manifest.app
    environment = _pairs(app, "environment", what)
    labels = {**manifest.labels, **manifest.annotations, "appc.io/name": manifest.name}
    mounts = [one.get("path") for one in _list(app, "mountPoints", what)]
    if not all(isinstance(path, str) and path.startswith("/") for path in mounts):
        raise ImageError(f"{what}: app.mountPoints: path is missing")
    command = app.get("exec") or []
    if not isinstance(command, list) or not all(isinstance(word, str) for word in command):
        raise ImageError(f"{what}: app.exec must be a list of strings")
    texts = [app.get(name, "") for name in ("user", "group", "workingDirectory")]
    if not all(isinstance(text, str) for text in texts):
        raise ImageError(f"{what}: app: user, group and workingDirectory must be strings")
    user, group, directory = texts
    config: Json = {
        "Entrypoint": command,
        "User": f"{user}:{group}" if group else user,
        "WorkingDir": directory,
        "Env": [f"{name}={value}" for name, value in environment.items()],
        "ExposedPorts": {port: {} for port in _ports(app, what)},
        "Volumes": {path: {} for path in mounts},
        "Labels": labels,
    }
    about: Json = {"os": "linux"}
    architecture = manifest.labels.get("arch", "")
    if architecture:
        if architecture not in _ARCHITECTURES:
            accepted = ", ".join(sorted(_ARCHITECTURES))
            raise ImageError(f'{what}: unknown architecture "{architecture}"', accepted)
        about["architecture"] = _ARCHITECTURES[architecture]
    if manifest.annotations.get("created"):
        about["created"] = manifest.annotations["created"]
    return about, {key: value for key, value in config.items() if value}


def _ports(app: Json, what: str) -> list[str]:
    found = []
    for port in _list(app, "ports", what):
        number, count, protocol = port.get("port"), port.get("count", 1), port.get("protocol")
        if (
            not isinstance(number, int)
            or not isinstance(count, int)
            or protocol not in ("tcp", "udp")
            or not 0 < number <= number + count - 1 < 65536
            or count > _MOST_PORTS
        ):
            raise ImageError(
                f"{what}: app.ports: invalid port {port!r}", "port, protocol tcp or udp"
            )
        found += [f"{number + offset}/{protocol}" for offset in range(count)]
    return found


def _dependency(value: Json, what: str) -> tuple[Reference, str]:
    name, id = value.get("imageName"), value.get("imageID") or ""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or not isinstance(id, str):
        raise ImageError(f"{what}: dependencies: invalid name {name!r}")
    return _reference(name, _pairs(value, "labels", what), what), id


def _reference(name: str, labels: dict[str, str], what: str) -> Reference:
    """Return a reference with the version as tag; it must not contain a digest or a path."""
    version = labels.get("version", "")
    if version and not is_tag(version):
        raise ImageError(f'{what}: the version "{version}" is not a valid tag', TAGS)
    return parse(f"docker://{name}" + (f":{version}" if version else ""))


def _pairs(document: Json, member: str, what: str) -> dict[str, str]:
    found = _list(document, member, what)
    pairs = [(one.get("name"), one.get("value")) for one in found]
    if not all(isinstance(text, str) for pair in pairs for text in pair):
        raise ImageError(f"{what}: {member}: must be a list of objects with name and value")
    return {str(name): str(value) for name, value in pairs}


def _list(document: Json, member: str, what: str) -> list[Json]:
    found = document.get(member) or []
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ImageError(f"{what}: {member} must be a list of objects")
    return found
