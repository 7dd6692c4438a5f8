"""Flavours by their names, and by the names of rkt's stages."""

from __future__ import annotations

import pytest

from ociruntime.base.errors import PodError
from ociruntime.pods.manifest.flavours import flavour


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("oci", "oci"),
        ("coreos", "oci"),
        ("stage1-coreos", "oci"),
        ("stage1-kvm", "kvm"),
        ("coreos.com/rkt/stage1-fly:1.30.0", "fly"),
        ("coreos.com/rkt/stage1-src", "oci"),
    ],
)
def test_names(name: str, found: str) -> None:
    assert flavour(name).name == found


@pytest.mark.parametrize("name", ["", "rkt", "fly:1.30.0", "stage1", "example.com/stage1-fly"])
def test_names_of_none(name: str) -> None:
    with pytest.raises(PodError, match=f'unknown flavour "{name}"'):
        flavour(name)
