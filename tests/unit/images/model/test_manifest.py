"""Documents of images, good and bad."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ociruntime.base.errors import ImageError
from ociruntime.images.model.digest import chain_id
from ociruntime.images.model.manifest import parse_config, parse_manifest
from tests.support import images

BUILT = images.BuiltImage([images.pack({"a": "1"}), images.pack({"b": "2"})])


def manifest(**changes: Any) -> bytes:  # noqa: ANN401
    return json.dumps(BUILT.manifest_document | changes).encode()


def test_docker_and_oci_mean_the_same() -> None:
    docker = images.BuiltImage(BUILT.layers, docker=True)
    for built in (BUILT, docker):
        _, config, layers = parse_manifest(built.manifest)
        document, joined = parse_config(built.blobs[config.digest], layers)
        assert [layer.diff_id for layer in joined] == document["rootfs"]["diff_ids"]
        assert {layer.compression for layer in joined} == {"gzip"}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not a JSON object"),
        (b"{}", "the manifest has schemaVersion None"),
        (manifest(schemaVersion=1), "schemaVersion 1"),
        (b" " * (5 << 20), "too large"),
        (manifest(mediaType=images.OCI_INDEX), "expected an image manifest, got an index"),
        (manifest(mediaType="text/plain"), 'unsupported media type of a manifest: "text/plain"'),
        (manifest(config=None), "the descriptor of the configuration must be"),
        (manifest(config={"mediaType": "x", "digest": "../../x", "size": 1}), "invalid digest"),
        (manifest(layers=None), "no list of layers"),
        (manifest(layers=[{"mediaType": "x", "size": -1}]), "layer 1 has no valid size"),
        (manifest(layers=[{"digest": "x", "size": 1}]), "layer 1 has no media type"),
    ],
)
def test_bad_manifests(data: bytes, message: str) -> None:
    with pytest.raises(ImageError, match=message):
        parse_manifest(data)


@pytest.mark.parametrize(
    ("media_type", "message"),
    [
        ("application/vnd.oci.image.layer.nondistributable.v1.tar+gzip", "not be distributed"),
        ("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", "not be distributed"),
        ("application/vnd.wasm.content.layer.v1+wasm", "unknown media type of a layer"),
    ],
)
def test_layers_that_are_none(media_type: str, message: str) -> None:
    layer = BUILT.manifest_document["layers"][0] | {"mediaType": media_type}
    with pytest.raises(ImageError, match=message):
        parse_manifest(manifest(layers=[layer]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rootfs": {"diff_ids": []}}, "2 layers and names 0"),
        ({"rootfs": None}, "2 layers and names 0"),
        ({"rootfs": {"diff_ids": ["x", "y"]}}, "invalid digest"),
        ({"os": "windows"}, 'made for "windows"'),
        ({"config": []}, "not a JSON object"),
        ({"config": {"Env": "PATH=x"}}, "config.Env of the image is not a list"),
        ({"config": {"Cmd": [1]}}, "config.Cmd of the image is not a list"),
        ({"config": {"User": 0}}, "config.User of the image is not a string"),
        ({"config": {"Volumes": ["/x"]}}, "config.Volumes of the image is not a JSON object"),
    ],
)
def test_bad_configurations(changes: dict[str, Any], message: str) -> None:
    _, _, layers = parse_manifest(BUILT.manifest)
    with pytest.raises(ImageError, match=message):
        parse_config(json.dumps(BUILT.config_document | changes).encode(), layers)


def test_chain_id() -> None:
    one, two = images.digest(b"1"), images.digest(b"2")
    assert chain_id([one]) == one
    assert chain_id([one, two]) == images.digest(f"{one} {two}".encode())
