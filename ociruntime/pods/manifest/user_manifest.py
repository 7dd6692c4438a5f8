"""Read a pod manifest that a user has written: validate it, and complete it from the images."""

from __future__ import annotations

import json
import os
from typing import Any, Protocol

from ociruntime.base import checks
from ociruntime.base.errors import PodError, UsageError
from ociruntime.pods.manifest import build_manifest as manifest
from ociruntime.pods.manifest.app_names import is_name
from ociruntime.pods.manifest.build_manifest import ImageFacts
from ociruntime.pods.manifest.ports import add_ports
from ociruntime.pods.manifest.request import AppRequest, PodRequest
from ociruntime.pods.manifest.tmpfs_and_devices import check_device, check_tmpfs


class Images(Protocol):
    """An image store.

    ``find`` looks up an image in the store, and raises ImageError if it is not found.
    """

    def find(self, reference: str) -> ImageFacts: ...


SCHEMA = "pod-manifest.schema.json"
_DEFAULTS: dict[str, Any] = {
    "user": "0",
    "group": "",
    "supplementaryGIDs": [],
    "workingDirectory": "/",
    "environment": [],
    "mountPoints": [],
    "ports": [],
    "isolators": [],
    "stopSignal": "SIGTERM",
    "userAnnotations": {},
    "userLabels": {},
}


def read_input(path: str, images: Images) -> manifest.Draft:
    """Read the pod manifest at ``path``, and complete it from the images of its apps.

    Raises UsageError or BadRequest if the manifest is invalid, ImageError if an image is not in the
    store, PodError if jsonschema is not installed.
    """
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise UsageError(f'--pod-manifest: read "{path}": {reason}') from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f'--pod-manifest: read "{path}": invalid JSON: {error}') from error
    check(document, path)
    ids = [entry["image"]["id"] for entry in document["apps"]]
    return completed(document, {id: images.find(id) for id in ids})


def check(document: object, path: str) -> None:
    """Validate ``document``, the pod manifest in the file ``path``, against its JSON schema.

    Raises UsageError with the JSON path of an invalid member; PodError if jsonschema is not
    installed.
    """
    try:
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import best_match
    except ImportError as error:
        hint = "pip install ociruntime[check]"
        raise PodError("--pod-manifest requires the Python package jsonschema", hint) from error
    package = os.path.realpath(__file__).rpartition("/pods/")[0]
    paths = (f"{package}/schemas/{SCHEMA}", f"{os.path.dirname(package)}/schemas/{SCHEMA}")
    schema = next((each for each in paths if os.path.exists(each)), None)
    if schema is None:
        raise PodError(
            f'--pod-manifest: the schema "{SCHEMA}" is missing: incomplete installation',
            "reinstall ociruntime",
        )
    with open(schema, encoding="utf-8") as file:
        validator = Draft202012Validator(json.load(file))
    fault = best_match(validator.iter_errors(document))
    if fault is not None:
        where = fault.json_path.removeprefix("$").removeprefix(".") or "the manifest"
        raise UsageError(f'--pod-manifest: "{path}": {where}: {fault.message}')


def completed(document: dict[str, Any], images: dict[str, ImageFacts]) -> manifest.Draft:
    """Complete ``document``, a validated pod manifest, with defaults, and return the draft.

    ``images`` maps image ids to images.  An app without the member ``app`` runs its image's
    command.  Raises UsageError for an invalid name, a duplicate volume, or an unknown port or
    volume; BadRequest for an invalid tmpfs or device.
    """
    draft = manifest.Draft(manifest.empty_manifest(PodRequest()))
    made = draft.manifest
    for member in ("volumes", "isolators", "annotations", "userAnnotations", "userLabels"):
        made[member] = document.get(member, made[member])
    names = [volume["name"] for volume in made["volumes"]]
    for name in [*names, *(entry["name"] for entry in document["apps"])]:
        # Names become file names; the schema's "$" would also match before a trailing line feed.
        if not is_name(name):
            raise UsageError(
                f'--pod-manifest: invalid app or volume name "{name}"',
                "use a-z, 0-9 and single dashes between them",
            )
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f'--pod-manifest: volume "{name}" is defined twice')
    for entry in document["apps"]:
        _add(draft, entry, images[entry["image"]["id"]])
    add_ports(made, [{"hostIP": "", **port} for port in document.get("ports", [])])
    return draft


def _add(draft: manifest.Draft, entry: dict[str, Any], image: ImageFacts) -> None:
    tmpfs = [
        {"target" if key == "path" else key: value for key, value in mount.items()}
        for mount in entry.get("tmpfs", [])
    ]
    devices = [
        {"target" if key == "path" else key: value for key, value in device.items()}
        for device in entry.get("devices", [])
    ]
    checks.list_of(check_tmpfs)(f'app "{entry["name"]}": tmpfs', tmpfs)
    checks.list_of(check_device)(f'app "{entry["name"]}": devices', devices)
    request = AppRequest(
        image=image.name or entry["name"], name=entry["name"], tmpfs=tmpfs, device=devices
    )
    if "app" not in entry:
        made = manifest.add_app(draft, request, image, entry.get("mounts", []), {}, {})
    else:
        made = manifest.new_entry(draft.manifest, request, image)
        streams = {**manifest.STREAM_DEFAULTS, **entry["app"].get("streams", {})}
        made["app"] = {**_DEFAULTS, **entry["app"], "streams": streams}
        manifest.add_mounts(draft, made, entry.get("mounts", []))
    made["readOnlyRootFS"] = entry.get("readOnlyRootFS", False)
    made["annotations"] = entry.get("annotations", [])
