"""Manifests written by users."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ociruntime.base.errors import PodError, UsageError
from ociruntime.images.store.store import Store
from ociruntime.pods.manifest import user_manifest as manifest_input

IMAGE = {"id": "sha256:" + "5" * 64}


@pytest.mark.parametrize("name", ["a\n", "..", "a/b", "", "a" * 201])
def test_names_that_could_not_be_those_of_files(name: str) -> None:
    with pytest.raises(UsageError, match="app or volume"):
        manifest_input.completed({"apps": [{"name": name, "image": IMAGE}]}, {})
    volumes = [{"name": name, "kind": "empty"}]
    with pytest.raises(UsageError, match="app or volume"):
        manifest_input.completed({"apps": [], "volumes": volumes}, {})


def test_without_what_checks_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    with pytest.raises(PodError, match="package jsonschema"):
        manifest_input.check({}, "file")


def test_a_volume_that_is_there_twice() -> None:
    volumes = [{"name": "v", "kind": "empty"}] * 2
    with pytest.raises(UsageError, match='volume "v" is defined twice'):
        manifest_input.completed({"apps": [], "volumes": volumes}, {})


@pytest.mark.parametrize("text", ["{", "[" * 100000, "\x00"])
def test_a_file_that_is_no_manifest(tmp_path: Path, text: str) -> None:
    file = tmp_path / "file"
    file.write_text(text)
    with pytest.raises(UsageError, match=f'--pod-manifest: read "{file}": invalid JSON: '):
        manifest_input.read_input(str(file), Store(str(tmp_path / "data")))


def test_ids_that_there_are() -> None:
    pytest.importorskip("jsonschema")
    volume: dict[str, object] = {"name": "v", "kind": "empty", "uid": 4294967294}
    apps = [{"name": "a", "image": IMAGE}]
    document = {"acVersion": "0.8.11", "acKind": "PodManifest", "apps": apps, "volumes": [volume]}
    manifest_input.check(document, "file")
    volume["uid"] = 4294967295
    with pytest.raises(UsageError, match=r"volumes\[0\]\.uid: 4294967295 is greater than"):
        manifest_input.check(document, "file")


def test_an_installation_without_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jsonschema")
    monkeypatch.setattr(manifest_input, "SCHEMA", "lost.json")
    with pytest.raises(PodError, match=r'the schema "lost\.json" is missing'):
        manifest_input.check({}, "file")
