"""App Container Images: their manifests, and the members that become a layer.

An input that begins with ``{`` is a manifest; any other input is an archive after a byte that
selects its form: odd repairs the checksums of its headers.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator

from ociruntime.base.errors import ImageError
from ociruntime.images.formats.aci import config_of, read_aci_manifest, read_manifest, root_members
from ociruntime.images.model.image_limits import Budget, Limits
from ociruntime.images.model.manifest import load_document
from ociruntime.images.tar.archives import Reading
from ociruntime.images.tar.layer_writer import LayerTar
from ociruntime.images.tar.tar_reader import TarReader
from tests.fuzz.mutation import change_tar, json_mutator, repaired
from tests.fuzz.target import Target, empty_directory, refusals
from tests.support import aci, images

LIMITS = Limits(bytes=1 << 20, files=200, depth=12, names=1 << 20, floor=1 << 18)
_NAMES = ("acKind", "acVersion", "name", "value", "labels", "annotations", "app", "exec", "user",
          "group", "workingDirectory", "environment", "ports", "port", "count", "protocol",
          "mountPoints", "path", "dependencies", "imageName", "imageID", "pathWhitelist",
          "eventHandlers")  # fmt: skip
_mutate_json = json_mutator(_NAMES)


def _budget() -> Budget:
    return Budget(LIMITS, lambda: (1 << 40, 1 << 40))


def _manifest(data: bytes) -> None:
    with refusals():
        manifest = read_aci_manifest(load_document(data, "a.aci: manifest"), "a.aci")
        about, config = config_of(manifest, "a.aci")
        assert about["os"] == "linux"
        json.dumps(config)


def _archive(data: bytes) -> None:
    with refusals():
        made = LayerTar(root_members(Reading(io.BytesIO(data), "a.aci"), frozenset(), _budget()))
        layer = b""
        while chunk := made.read():
            layer += chunk
        assert made.count == len(layer)
        _check(layer)
    path = empty_directory("aci") / "a.aci"
    path.write_bytes(data)
    with refusals():
        read_manifest(str(path), _budget())


def _check(layer: bytes) -> None:
    """Check that our own reader accepts the resulting layer, and that no name leads outside."""
    reader = TarReader(io.BytesIO(layer))
    try:
        for header in reader:
            assert b".." not in header.name.split(b"/")
            while reader.read(1 << 16):
                pass
    except ImageError as error:
        raise AssertionError(f"the layer that was made is refused: {error}") from None


def run(data: bytes) -> None:
    if data[:1] == b"{":
        _manifest(data)
    elif data:
        _archive(repaired(data[1:]) if data[0] & 1 else data[1:])


def seeds() -> Iterator[bytes]:
    app = {
        "exec": ["/bin/sh"], "user": "0", "group": "0", "workingDirectory": "/",
        "environment": [{"name": "A", "value": "1"}],
        "ports": [{"name": "http", "port": 80, "protocol": "tcp", "count": 2}],
        "mountPoints": [{"name": "data", "path": "/data", "readOnly": True}],
    }  # fmt: skip
    labels = [{"name": "version", "value": "1"}, {"name": "arch", "value": "amd64"}]
    whole = aci.manifest(
        "example.com/a", app=app, labels=labels, pathWhitelist=["/bin/sh"],
        dependencies=[{"imageName": "example.com/b", "imageID": "sha512-00", "labels": labels}],
        annotations=[{"name": "created", "value": "2026-01-01T00:00:00Z"}],
    )  # fmt: skip
    for one in (whole, aci.manifest("a")):
        yield json.dumps(one).encode()
    text = json.dumps(aci.manifest("a"))
    yield b"\1" + images.pack({"manifest": text, "rootfs/": "", "rootfs/a": "x"})[:4096]
    link = images.member(b"1", linkname="rootfs/a")
    yield b"\1" + images.pack({"rootfs/a": "x", "rootfs/b": link, "manifest": "{}"})[:4096]


def mutate(data: bytes, rng: random.Random) -> bytes:
    if data[:1] == b"{":
        return _mutate_json(data, rng)  # type: ignore[no-any-return]
    return data[:1] + change_tar(data[1:], rng)


TARGET = Target(
    run,
    ("images/formats/aci.py", "images/tar/layer_writer.py", "images/tar/archives.py"),
    seeds,
    mutate,
)
