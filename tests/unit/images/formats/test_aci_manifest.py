"""Validation of an App Container Image's manifest."""

from __future__ import annotations

import pytest

from ociruntime.base.errors import ImageError
from ociruntime.images.formats.aci import read_aci_manifest


def labels(version: str) -> list[dict[str, str]]:
    return [{"name": "version", "value": version}]


def manifest(name: str, version: str) -> dict[str, object]:
    return {"acKind": "ImageManifest", "name": name, "labels": labels(version)}


def test_the_version_is_the_tag() -> None:
    read = read_aci_manifest(manifest("example.com/app", "v1.0_a-b"), "it")
    assert read.reference.name == "example.com/app:v1.0_a-b"
    assert read_aci_manifest(manifest("busybox", ""), "it").reference.name.endswith(":latest")


@pytest.mark.parametrize(
    "version", [f"1@sha256:{'0' * 64}", "5000/a:b", "5000/team/web:v1", "@", "-1", "1 ", "a" * 129]
)
@pytest.mark.parametrize("name", ["localhost", "docker.io/library/busybox"])
def test_a_version_that_would_be_more_than_a_tag(name: str, version: str) -> None:
    """A digest, or a port and a path: another image's name."""
    words = f'version: invalid tag "{version}"'
    with pytest.raises(ImageError) as raised:
        read_aci_manifest(manifest(name, version), "it")
    assert words in str(raised.value)
    dependencies = [{"imageName": name, "labels": labels(version)}]
    with pytest.raises(ImageError) as raised:
        read_aci_manifest(manifest("top", "1") | {"dependencies": dependencies}, "it")
    assert words in str(raised.value)
