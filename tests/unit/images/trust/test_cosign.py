"""cosign signatures, read without a registry."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from ociruntime.base.errors import ImageError
from ociruntime.images.trust.cosign import ANNOTATION, PAYLOAD, load_keys, signatures
from tests.support import images


def test_only_whole_ones_count() -> None:
    payload: dict[str, Any] = images.descriptor(PAYLOAD, b"{}")
    text = base64.b64encode(b"signature").decode()
    layers = [
        payload | {"annotations": {ANNOTATION: text}},
        payload | {"annotations": {ANNOTATION: "?"}},
        payload | {"annotations": {ANNOTATION: 1}},
        payload | {"annotations": []},
        payload | {"size": 2 << 20, "annotations": {ANNOTATION: text}},
        images.descriptor("text/plain", b"{}") | {"annotations": {ANNOTATION: text}},
        payload,
    ]
    found = list(signatures(json.dumps({"layers": layers}).encode()))
    assert [signature for _, signature in found] == [b"signature"]


@pytest.mark.parametrize("layers", [None, 1, "x"])
def test_what_is_no_image(layers: object) -> None:
    with pytest.raises(ImageError, match="layers must"):
        list(signatures(json.dumps({"layers": layers}).encode()))


def test_a_key_on_a_curve_that_nobody_knows(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1()).public_key()
    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    prime256v1 = bytes.fromhex("06082a8648ce3d030107")
    changed = base64.encodebytes(der.replace(prime256v1, prime256v1[:-1] + b"\x7a"))
    path = tmp_path / "team.pub"
    path.write_bytes(b"-----BEGIN PUBLIC KEY-----\n%s-----END PUBLIC KEY-----\n" % changed)
    with pytest.raises(ImageError, match=r'team\.pub": .*not supported'):
        load_keys((str(path),))


def test_cryptography_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization", None)
    words = r"cryptography .pip install"
    with pytest.raises(ImageError, match=words):
        load_keys(("x.pub",))
