"""Valid and invalid documents of images."""

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
        (b"", "^manifest is "),
        (b"[" * 100_000, "JSON"),
        (b"[]", "a JSON object"),
        (b"{}", "manifest: unsupported schemaVersion None"),
        (manifest(schemaVersion=1), "schemaVersion 1"),
        (b" " * (5 << 20), "too large"),
        (manifest(mediaType=images.OCI_INDEX), "image index"),
        (manifest(mediaType="text/plain"), 'manifest: unsupported mediaType "text/plain"'),
        (manifest(config=None), "manifest: config "),
        (manifest(config={"mediaType": "x", "digest": "../../x", "size": 1}), "invalid digest"),
        (
            manifest(config={"mediaType": "text/x", "digest": images.digest(b""), "size": 1}),
            'config: unsupported mediaType "text/x" .the artifact may not be a container image',
        ),
        (
            manifest(config=BUILT.manifest_document["config"] | {"size": 1 << 40}),
            "config is .* large: 1099511627776 bytes",
        ),
        (manifest(layers=None), "layers must"),
        (manifest(layers=[{"mediaType": "x", "size": -1}]), r"layers\[0\]: size must be"),
        (manifest(layers=[{"digest": "x", "size": 1}]), r"layers\[0\]: mediaType must be"),
    ],
)
def test_bad_manifests(data: bytes, message: str) -> None:
    with pytest.raises(ImageError, match=message):
        parse_manifest(data)


@pytest.mark.parametrize(
    ("media_type", "message"),
    [
        ("application/vnd.oci.image.layer.nondistributable.v1.tar+gzip", "non-distributable"),
        ("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", "non-distributable"),
        ("application/vnd.wasm.content.layer.v1+wasm", r"layers\[0\]: unsupported mediaType"),
    ],
)
def test_layers_that_are_none(media_type: str, message: str) -> None:
    layer = BUILT.manifest_document["layers"][0] | {"mediaType": media_type}
    with pytest.raises(ImageError, match=message):
        parse_manifest(manifest(layers=[layer]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rootfs": {"diff_ids": []}}, "0 entries, .*2 layers"),
        ({"rootfs": None}, "0 entries, .*2 layers"),
        ({"rootfs": {"diff_ids": ["x", "y"]}}, "invalid digest"),
        ({"os": "windows"}, 'unsupported os "windows"'),
        ({"config": []}, "config must"),
        ({"config": {"Env": "PATH=x"}}, r"config\.Env "),
        ({"config": {"Cmd": [1]}}, r"config\.Cmd "),
        ({"config": {"User": 0}}, r"config\.User "),
        ({"config": {"Volumes": ["/x"]}}, r"config\.Volumes "),
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
