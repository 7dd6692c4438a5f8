"""Convert App Container Images (ACI, the format of appc and rkt) to OCI images.

An ACI is a tar archive that contains ``manifest`` and ``rootfs/``.  Its root filesystem becomes a
layer on top of the layers of its dependencies, which must be in the store.
"""

from __future__ import annotations

import hashlib
import re
import tarfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from ociruntime.base.errors import ImageError
from ociruntime.images.model.image import Json, Progress
from ociruntime.images.model.image_limits import Budget
from ociruntime.images.model.manifest import LARGEST_DOCUMENT, load_document
from ociruntime.images.model.reference import TAGS, Reference, is_tag, parse
from ociruntime.images.store.import_image import Incoming
from ociruntime.images.store.make_manifest import StoredLayer, add_documents, minimal_config
from ociruntime.images.store.resolve_index import Document
from ociruntime.images.store.store import Store
from ociruntime.images.tar.archives import Reading, member_name, members, open_file, plain
from ociruntime.images.tar.decompression import Readable
from ociruntime.images.tar.file_attributes import is_text
from ociruntime.images.tar.layer_writer import LayerTar, Member, check_name
from ociruntime.images.tar.tar_header import DIRECTORY, HARD_LINK, REGULAR, Header
from ociruntime.images.trust.check_stored_image import Permission

ID = "appc.io/id"  # annotation of the OCI manifest: appc's image id (sha512 of the tar archive)
ROOTFS = "rootfs"


class Hashing:
    """A wrapper around ``stream`` that computes the SHA-512 of the bytes read through it."""

    def __init__(self, stream: Readable) -> None:
        self.stream = stream
        self.hash = hashlib.sha512()

    def read(self, size: int, /) -> bytes:
        data = self.stream.read(size)
        self.hash.update(data)
        return data


def add_aci(
    incoming: Incoming, store: Store, path: str, progress: Progress, permission: Permission
) -> tuple[Document, AciManifest]:
    """Add the ACI at ``path`` to the import ``incoming``; return (OCI manifest, appc manifest).

    Raises HostError if the file cannot be read, ImageError if the ACI is invalid or a dependency is
    missing or not permitted.
    """
    what = f'ACI "{path}"'
    manifest = read_manifest(path, incoming.budget)
    lower = _lower(incoming, store, manifest, what, permission)
    if lower and manifest.whitelist:
        raise ImageError(f"{what}: manifest: pathWhitelist with dependencies is not supported")
    about, app = config_of(manifest, what)
    budget = incoming.budget
    with open_file(path) as file, closing(plain(file, what, budget)) as stream:
        hashing = Hashing(stream)
        layer_tar = LayerTar(root_members(Reading(hashing, what), manifest.whitelist, budget))
        digest = incoming.add_blob(layer_tar, progress=progress, kind=f"converting {path}")
    layers = [*lower, StoredLayer(digest, layer_tar.count, digest)]
    id = f"sha512-{hashing.hash.hexdigest()}"
    config = minimal_config(layers, app) | about
    return add_documents(incoming, config, layers, {ID: id}), manifest


def read_manifest(path: str, budget: Budget) -> AciManifest:
    """Return the parsed appc manifest of the ACI at ``path``.

    Raises HostError if the file cannot be read, ImageError if the ACI is invalid.
    """
    what = f'ACI "{path}"'
    with open_file(path) as file, closing(plain(file, what, budget)) as stream:
        for member, content in members(stream, budget):
            if member_name(member.name) == "manifest":
                if member.type != REGULAR or member.size > LARGEST_DOCUMENT:
                    break
                data = b""
                while more := content.read(LARGEST_DOCUMENT):
                    data += more
                return read_aci_manifest(load_document(data, f"{what}: manifest"), what)
    message = f'the archive has no file "manifest" of at most {LARGEST_DOCUMENT} bytes'
    raise ImageError(f"{what}: not an ACI: {message}")


def root_members(stream: Reading, whitelist: frozenset[str], budget: Budget) -> Iterator[Member]:
    """Yield the members of an ACI below ``rootfs``, with names relative to ``rootfs``.

    ``stream`` is the ACI's tar archive, which is read to its end.  If ``whitelist`` is not empty,
    omits files (but not directories) that it does not list.  Raises ImageError if the archive is
    invalid.
    """
    for member, content in members(stream, budget):
        name = member_name(member.name)
        top, _, below = name.partition("/")
        if name in ("", "manifest"):
            continue
        if top != ROOTFS or ".." in below.split("/"):
            raise ImageError(
                f'{stream.what}: unexpected member "{member.shown()}"',
                'an ACI contains only a file "manifest" and a directory "rootfs"',
            )
        if whitelist and member.type != DIRECTORY and below not in whitelist:
            continue
        check_name(below)
        header = _tar_info(member, below or ".")
        if member.type == HARD_LINK:
            header.linkname = _inside(header.linkname, whitelist, stream.what)
        yield header, content if member.type == REGULAR else None


def _tar_info(member: Header, name: str) -> tarfile.TarInfo:
    """Convert the header of a member of an ACI to a ``TarInfo`` with the name ``name``."""
    header = tarfile.TarInfo(name)
    header.type, header.mode, header.size = member.type, member.mode, member.size
    header.uid, header.gid = member.uid, member.gid
    seconds, fraction = divmod(member.mtime, 1_000_000_000)
    header.mtime = seconds
    header.linkname = member.link.decode("utf-8", "surrogateescape")
    header.uname = member.user.decode("utf-8", "surrogateescape")
    header.gname = member.group.decode("utf-8", "surrogateescape")
    header.devmajor, header.devminor = member.major, member.minor
    header.pax_headers = {
        f"SCHILY.xattr.{key}": value.decode("utf-8", "surrogateescape")
        for key, value in member.xattrs.items()
        if is_text(key)
    }
    if fraction:
        # Not str() of a float, which could be "1e-06": readers of pax headers refuse that.
        header.pax_headers["mtime"] = f"{seconds}.{fraction:09d}"
    return header


def _inside(target: str, whitelist: frozenset[str], what: str) -> str:
    """Return the path of a hard link's ``target`` relative to ``rootfs``.

    Raises ImageError if the target is not below ``rootfs``, or if a non-empty ``whitelist`` does
    not list it.  ``what`` names the ACI in the error message.
    """
    top, _, below = member_name(target).partition("/")
    if top != ROOTFS or not below or (whitelist and below not in whitelist):
        raise ImageError(f'{what}: the target "{target}" of a hard link is not in the image')
    return below


def _lower(
    incoming: Incoming, store: Store, manifest: AciManifest, what: str, permission: Permission
) -> list[StoredLayer]:
    """Return the layers of all dependencies of an ACI, lowest layer first.

    The layers of the last dependency are on top.  Raises ImageError if a dependency is not in the
    store, is not permitted or does not have the required imageID; ``what`` names the ACI in the
    error message.
    """
    layers: list[StoredLayer] = []
    for reference, id in manifest.dependencies:
        try:
            image = store.find(reference.name)
        except ImageError as error:
            hint = f"run ocipod fetch {reference.name}"
            raise ImageError(f"{what}: dependency: {error.message}", hint) from None
        permission.require(image.id, reference.name)
        annotations = image.manifest.get("annotations") or {}
        if id and annotations.get(ID) != id:
            message = f'dependency "{reference.name}" has a different imageID in the store'
            raise ImageError(f"{what}: {message}", f"fetch the version with imageID {id}")
        for layer in image.layers:
            if not incoming.has(layer.digest):
                message = f'layer {layer.digest} of "{reference.name}" is missing from the store'
                raise ImageError(f"{what}: dependency: {message}")
            layers.append(StoredLayer(layer.digest, layer.size, layer.diff_id, layer.compression))
    return layers


# The rest of this file converts an appc manifest to an OCI image configuration.
#
# Kept: exec, user, group, working directory, environment, ports, mount points, labels, annotations.
# Refused, because the app would behave differently: event handlers.  Dropped, because an OCI
# configuration cannot express them: names of ports and mount points, isolators, supplementary
# groups.

_ARCHITECTURES = {"amd64": "amd64", "i386": "386", "aarch64": "arm64", "armv7l": "arm"}
_ARCHITECTURES |= {"armv6l": "arm", "armv7b": "arm", "ppc64le": "ppc64le", "s390x": "s390x"}
_NAME = re.compile(r"[a-z0-9]+([-._~/][a-z0-9]+)*")
_MOST_PORTS = 1024


@dataclass(frozen=True, slots=True)
class AciManifest:
    """A parsed appc manifest; ``reference`` is the name of the image in the store.

    ``dependencies`` lists (reference of a required image, its imageID "sha512-..." or "").
    ``whitelist`` lists the files that belong to the image, relative to ``rootfs``; an empty
    whitelist means all files.
    """

    name: str
    reference: Reference
    labels: dict[str, str]
    annotations: dict[str, str]
    app: Json
    dependencies: tuple[tuple[Reference, str], ...]
    whitelist: frozenset[str]


def read_aci_manifest(document: Json, what: str) -> AciManifest:
    """Parse and validate an appc manifest.

    Raises ImageError if it is invalid or not supported; ``what`` names the ACI in the error
    message.
    """
    if document.get("acKind") != "ImageManifest":
        raise ImageError(f"{what}: manifest: acKind must be ImageManifest")
    name = document.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        hint = "use an appc identifier such as example.com/web"
        raise ImageError(f"{what}: manifest: invalid name {name!r}", hint)
    labels = _pairs(document, "labels", what)
    if labels.get("os", "linux") != "linux":
        raise ImageError(f'{what}: manifest: unsupported os "{labels["os"]}"', "supported: linux")
    app = document.get("app") or {}
    if not isinstance(app, dict):
        raise ImageError(f"{what}: manifest: app must be a JSON object")
    if app.get("eventHandlers"):
        raise ImageError(f"{what}: manifest: app.eventHandlers is not supported")
    paths = document.get("pathWhitelist") or []
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise ImageError(f"{what}: manifest: pathWhitelist must be a list of paths")
    dependencies = _list(document, "dependencies", what)
    return AciManifest(
        name,
        _reference(name, labels, what),
        labels,
        _pairs(document, "annotations", what),
        app,
        tuple(_dependency(dependency, what) for dependency in dependencies),
        frozenset(path.strip("/") for path in paths),
    )


def config_of(manifest: AciManifest, what: str) -> tuple[Json, Json]:
    """Convert an appc manifest to an OCI image configuration.

    Returns two JSON objects: one with the configuration's members ``os``, ``architecture`` and
    ``created``, and the value of its member ``config``.  Raises ImageError if the manifest is
    invalid; ``what`` names the ACI in the error message.
    """
    app = manifest.app
    environment = _pairs(app, "environment", what)
    labels = {**manifest.labels, **manifest.annotations, "appc.io/name": manifest.name}
    mounts = [mount.get("path") for mount in _list(app, "mountPoints", what)]
    if not all(isinstance(path, str) and path.startswith("/") for path in mounts):
        raise ImageError(f"{what}: manifest: app.mountPoints: path must be an absolute path")
    command = app.get("exec") or []
    if not isinstance(command, list) or not all(isinstance(word, str) for word in command):
        raise ImageError(f"{what}: manifest: app.exec must be a list of strings")
    texts = [app.get(name, "") for name in ("user", "group", "workingDirectory")]
    if not all(isinstance(text, str) for text in texts):
        message = "app.user, app.group and app.workingDirectory must be strings"
        raise ImageError(f"{what}: manifest: {message}")
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
            message = f'manifest: unsupported arch "{architecture}"'
            raise ImageError(f"{what}: {message}", f"supported: {accepted}")
        about["architecture"] = _ARCHITECTURES[architecture]
    if manifest.annotations.get("created"):
        about["created"] = manifest.annotations["created"]
    return about, {key: value for key, value in config.items() if value}


def _ports(app: Json, what: str) -> list[str]:
    """Return the ports of an appc app as a list of ``PORT/PROTOCOL``.

    Raises ImageError if a port is invalid; ``what`` names the ACI in the error message.
    """
    ports = []
    for port in _list(app, "ports", what):
        number, count, protocol = port.get("port"), port.get("count", 1), port.get("protocol")
        if (
            not isinstance(number, int)
            or not isinstance(count, int)
            or protocol not in ("tcp", "udp")
            or not 0 < number <= number + count - 1 < 65536
            or count > _MOST_PORTS
        ):
            hint = f"port must be 1 to 65535, protocol tcp or udp, count at most {_MOST_PORTS}"
            raise ImageError(f"{what}: manifest: app.ports: invalid port {port!r}", hint)
        ports += [f"{number + offset}/{protocol}" for offset in range(count)]
    return ports


def _dependency(value: Json, what: str) -> tuple[Reference, str]:
    name, id = value.get("imageName"), value.get("imageID") or ""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or not isinstance(id, str):
        raise ImageError(f"{what}: dependencies: invalid imageName {name!r} or imageID {id!r}")
    return _reference(name, _pairs(value, "labels", what), what), id


def _reference(name: str, labels: dict[str, str], what: str) -> Reference:
    """Return the reference under which the store keeps an ACI; its tag is the label ``version``."""
    version = labels.get("version", "")
    if version and not is_tag(version):
        raise ImageError(f'{what}: manifest: label version: invalid tag "{version}"', TAGS)
    return parse(f"docker://{name}" + (f":{version}" if version else ""))


def _pairs(document: Json, member: str, what: str) -> dict[str, str]:
    """Convert ``document[member]``, a list of objects with "name" and "value", to a dict.

    Raises ImageError if it is anything else; ``what`` names the ACI in the error message.
    """
    pairs = [(entry.get("name"), entry.get("value")) for entry in _list(document, member, what)]
    if not all(isinstance(text, str) for pair in pairs for text in pair):
        raise ImageError(
            f"{what}: manifest: {member} must be a list of objects with name and value"
        )
    return {str(name): str(value) for name, value in pairs}


def _list(document: Json, member: str, what: str) -> list[Json]:
    """Return ``document[member]``, a list of JSON objects; [] if it is missing.

    Raises ImageError if it is anything else; ``what`` names the ACI in the error message.
    """
    value = document.get(member) or []
    if not isinstance(value, list) or not all(isinstance(element, dict) for element in value):
        raise ImageError(f"{what}: manifest: {member} must be a list of objects")
    return value
