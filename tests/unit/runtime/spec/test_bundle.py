"""The location of a bundle's parts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.spec.bundle import load_bundle
from ociruntime.runtime.spec.default_config import default_config


def write(bundle: Path, root: str = "rootfs", name: str = "config.json") -> bytes:
    config = default_config()
    config["root"]["path"] = root
    text = json.dumps(config).encode()
    (bundle / name).write_bytes(text)
    return text


def test_parts(tmp_path: Path) -> None:
    text = write(tmp_path)
    (tmp_path / "rootfs").mkdir()
    bundle = load_bundle(str(tmp_path))
    assert bundle.path == str(tmp_path)
    assert bundle.rootfs == str(tmp_path / "rootfs")
    assert bundle.config_bytes == text
    assert bundle.config == json.loads(text)
    assert bundle.warnings == []


@pytest.mark.parametrize("given", [".", "", "./", "../here", "sub/.."])
def test_relative_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    """RT-STATE-09: what is remembered is absolute."""
    here = tmp_path / "here"
    (here / "rootfs").mkdir(parents=True)
    (here / "sub").mkdir()
    write(here)
    monkeypatch.chdir(here)
    assert load_bundle(given).path == str(here)


def test_root_counts_from_the_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CFG-ROOT-03."""
    bundle, elsewhere = tmp_path / "bundle", tmp_path / "elsewhere"
    (bundle / "rootfs").mkdir(parents=True)
    (elsewhere / "rootfs").mkdir(parents=True)
    write(bundle)
    monkeypatch.chdir(elsewhere)
    assert load_bundle(str(bundle)).rootfs == str(bundle / "rootfs")


def test_root_elsewhere_and_through_a_link(tmp_path: Path) -> None:
    """BUNDLE-04, A-104."""
    bundle, root = tmp_path / "bundle", tmp_path / "root"
    bundle.mkdir()
    root.mkdir()
    write(bundle, str(root))
    assert load_bundle(str(bundle)).rootfs == str(root)
    (bundle / "rootfs").symlink_to("../root")
    write(bundle)
    assert load_bundle(str(bundle)).rootfs == str(root)


def test_another_config(tmp_path: Path) -> None:
    (tmp_path / "rootfs").mkdir()
    write(tmp_path, name="other.json")
    assert load_bundle(str(tmp_path), str(tmp_path / "other.json")).path == str(tmp_path)


def test_no_bundle(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r'^open bundle ".*/nope": no such file or directory$'):
        load_bundle(str(tmp_path / "nope"))
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r'^open bundle ".*/file": not a directory$'):
        load_bundle(str(tmp_path / "file"))


@pytest.mark.parametrize("name", ["Config.json", "config.JSON", "sub/config.json"])
def test_config_under_another_name(tmp_path: Path, name: str) -> None:
    """BUNDLE-02, -03."""
    (tmp_path / "rootfs").mkdir()
    (tmp_path / "sub").mkdir()
    write(tmp_path, name=name)
    with pytest.raises(ConfigError, match=r"config\.json not found in "):
        load_bundle(str(tmp_path))
