"""Signed documents for another image, or of another format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ociruntime.base.errors import HostError, ImageError
from ociruntime.images.model.reference import parse
from ociruntime.images.store.resolve_index import Document
from ociruntime.images.trust import trusted_keys
from ociruntime.images.trust.openpgp import Key
from ociruntime.images.trust.verify_signatures import SignatureVerifier, identity_fault
from tests.support import images

DIGEST = images.digest(b"manifest")
DOCUMENT = Document(b"manifest", DIGEST, "")


def fault(critical: object, reference: str = "docker://host/web:1") -> str:
    verifier: Any = SignatureVerifier.__new__(SignatureVerifier)
    verifier.reference = parse(reference)
    payload = json.dumps({"critical": critical}).encode()
    found: str = verifier._payload_fault(payload, [DOCUMENT])
    return found


def signed(**changes: object) -> dict[str, object]:
    return {
        "type": "atomic container signature",
        "image": {"docker-manifest-digest": DIGEST},
        "identity": {"docker-reference": "host/web:1"},
        **changes,
    }


def test_the_document_of_this_image() -> None:
    assert fault(signed()) == ""
    assert fault(signed(type="cosign container image signature")) == ""


@pytest.mark.parametrize("critical", [None, [], "x", {}, signed(image=5), signed(identity=None)])
def test_documents_in_another_format(critical: object) -> None:
    assert "simple signing format" in fault(critical)


@pytest.mark.parametrize("kind", ["gpg", None, ["atomic container signature"]])
def test_types_that_are_unknown(kind: object) -> None:
    assert fault(signed(type=kind)).endswith(f'signature "{kind}"')


def test_another_digest() -> None:
    other = images.digest(b"other")
    found = fault(signed(image={"docker-manifest-digest": other}))
    assert found.endswith(f" for {other}")
    assert fault(signed(image={"docker-manifest-digest": [DIGEST]})).startswith("the signature is")


@pytest.mark.parametrize(
    ("name", "reference", "expected"),
    [
        ("host/web", "docker://host/web:1", ""),
        ("host/web:2", "docker://host/web:1", 'is for "host/web:2"'),
        ("host/web:2", f"docker://host/web@{DIGEST}", ""),
        ("host/db:1", "docker://host/web:1", 'is for "host/db:1"'),
        ("other/web:1", "docker://host/web:1", 'is for "other/web:1"'),
        ("not a name", "docker://host/web:1", 'is for "not a name"'),
        (5, "docker://host/web:1", "names no image"),
        (None, "docker://host/web:1", "names no image"),
        (None, "oci:/srv/web:1", ""),
        ("busybox", "docker://docker.io/library/busybox:1", ""),
    ],
)
def test_names(name: object, reference: str, expected: str) -> None:
    found = identity_fault(name, parse(reference))
    assert found.endswith(expected)
    assert bool(found) is bool(expected)


def test_key_files_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=f'read OpenPGP key "{tmp_path}/none": no such file'):
        trusted_keys.read_key_file(str(tmp_path / "none"))
    (tmp_path / "empty").touch()
    with pytest.raises(ImageError, match=f'read OpenPGP keys "{tmp_path}/empty": the file is em'):
        trusted_keys.read_key_file(str(tmp_path / "empty"))
    key: Any = Key.__new__(Key)
    for name, value in (("fingerprint", "0" * 40), ("data", b"key")):
        object.__setattr__(key, name, value)
    with pytest.raises(HostError, match=f'write trusted key "{tmp_path}/empty/trustedkeys/'):
        trusted_keys.add_key(str(tmp_path / "empty"), "", key)
    path = trusted_keys.add_key(str(tmp_path), "", key)
    assert Path(path).read_bytes() == b"key"
    assert Path(path).stat().st_mode & 0o777 == 0o644


def test_directories_of_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".hidden").touch()
    (tmp_path / "key").touch()
    assert trusted_keys._names(str(tmp_path)) == ["key"]
    assert trusted_keys._names(str(tmp_path / "none")) == []
    assert trusted_keys._names(str(tmp_path / "key")) == []

    def refuse(_: str) -> list[str]:
        raise PermissionError(13, "permission denied")

    monkeypatch.setattr("os.listdir", refuse)
    with pytest.raises(HostError, match=f'read directory "{tmp_path}": permission denied'):
        trusted_keys._names(str(tmp_path))
