"""Choose the image of an index for a platform."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ociruntime.base.errors import ImageError
from ociruntime.images.model.platforms import (
    choose,
    fits,
    host,
    matching_platforms,
    parse_platform,
    read_index,
    runs,
)
from tests.support import images

V2 = {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"}
V3 = V2 | {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"}


def index(*platforms: str) -> bytes:
    """Return an index of OS/ARCHITECTURE/VARIANT or "" entries.

    Each descriptor's size is its index.
    """
    entries: list[Any] = []
    for place, platform in enumerate(platforms):
        entry: dict[str, Any] = {
            "mediaType": images.OCI_MANIFEST,
            "digest": images.digest(platform.encode()),
            "size": place,
        }
        if platform:
            names = ("os", "architecture", "variant")
            entry["platform"] = dict(zip(names, platform.split("/"), strict=False))
        entries.append(entry)
    return json.dumps({"schemaVersion": 2, "manifests": entries}).encode()


@pytest.mark.parametrize(
    ("machine", "flags", "platforms", "place"),
    [
        ("x86_64", set(), ["linux/arm64", "linux/amd64"], 1),
        ("x86_64", set(), ["windows/amd64", "linux/amd64"], 1),
        ("x86_64", set(), ["linux/386", "linux/amd64"], 1),
        ("x86_64", set(), ["linux/386", "linux/arm"], 0),
        ("x86_64", set(), ["linux/amd64/v3", "linux/amd64"], 1),
        ("x86_64", V3, ["linux/amd64", "linux/amd64/v2", "linux/amd64/v3"], 2),
        ("x86_64", V2, ["linux/amd64", "linux/amd64/v2", "linux/amd64/v3"], 1),
        ("x86_64", set(), ["linux/amd64", "linux/amd64"], 0),
        ("x86_64", set(), ["unknown/unknown", "linux/amd64"], 1),
        ("x86_64", set(), [""], 0),
        ("aarch64", set(), ["linux/arm/v7", "linux/arm64/v8"], 1),
        ("aarch64", set(), ["linux/arm/v6", "linux/arm/v7"], 1),
        ("armv7l", set(), ["linux/arm/v5", "linux/arm/v6", "linux/arm/v8"], 1),
        ("armv6l", set(), ["linux/arm/v7", "linux/arm/v5"], 1),
        ("pdp11", set(), ["linux/pdp11"], 0),
    ],
)
def test_choice(machine: str, flags: set[str], platforms: list[str], place: int) -> None:
    entries = read_index(index(*platforms), "", "it")
    assert entries is not None
    assert choose(entries, runs(machine, flags), "it").size == place


def test_none_fits() -> None:
    entries = read_index(index("linux/s390x", "unknown/unknown", ""), "", "it")
    assert entries is not None
    with pytest.raises(ImageError, match=r"linux/amd64/v1 .available: linux/s390x, no platform"):
        choose(entries, runs("x86_64", set())[:1], "it")
    assert host()


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"manifests": [], "layers": []}, 'it is ambiguous: .*"manifests" .*"layers"'),
        ({"schemaVersion": 1}, "it: schemaVersion 1 is not supported"),
        (
            {"mediaType": images.OCI_INDEX, "layers": []},
            'it: .*"manifests".* media type',
        ),
        (
            {"mediaType": images.OCI_MANIFEST, "manifests": []},
            'it: it has "manifests".* media type',
        ),
        ({"manifests": 1}, "it: manifests must be"),
        ({"manifests": [1]}, r"it: manifests\[0\] "),
        ({"manifests": [{"digest": "x", "size": 1, "mediaType": "x"}]}, 'invalid digest "x"'),
        (
            {"manifests": [{**images.descriptor("x", b""), "platform": 1}]},
            "platform and annotations",
        ),
    ],
)
def test_documents_that_are_no_index(document: object, message: str) -> None:
    with pytest.raises(ImageError, match=message):
        read_index(json.dumps(document).encode(), "", "it")


def test_a_manifest_is_no_index() -> None:
    assert read_index(images.build([]).manifest, "", "it") is None


@pytest.mark.parametrize(
    ("text", "platform"),
    [
        ("linux/amd64", ("amd64", "")),
        ("arm64", ("arm64", "")),
        ("linux/arm/v6", ("arm", "v6")),
        ("Linux/aarch64", ("arm64", "")),
        ("linux/armhf", ("arm", "v7")),
    ],
)
def test_platforms_as_users_write_them(text: str, platform: tuple[str, str]) -> None:
    assert parse_platform(text) == platform


@pytest.mark.parametrize(
    "text", ["", "linux/", "windows/amd64", "linux/a/b/c", "a b", "/", "--x", "linux/../x"]
)
def test_what_is_no_platform(text: str) -> None:
    with pytest.raises(ImageError, match="platform"):
        parse_platform(text)


def test_platforms_that_users_want() -> None:
    assert matching_platforms("") == host()
    assert matching_platforms("linux/arm64") == [("arm64", "v8"), ("arm64", "")]
    assert matching_platforms("linux/arm/v7") == [("arm", "v7"), ("arm", "")]
    assert matching_platforms("linux/arm/v6") == [("arm", "v6")]
    assert matching_platforms("linux/mine") == [("mine", "")]
    assert ("amd64", "") in matching_platforms("linux/amd64") or host()[0][0] != "amd64"
    config = {"os": "linux", "architecture": "arm64", "variant": "v8"}
    assert fits(config, "")
    assert fits(config, "linux/arm64")
    assert fits(config, "linux/arm64/v8")
    assert not fits(config, "linux/amd64")
    assert not fits({"os": "windows", "architecture": "arm64"}, "linux/arm64")
    assert not fits({}, "linux/arm64")
