"""Each broken bundle is refused with the expected message."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.spec import schema
from ociruntime.runtime.spec.bundle import load_bundle
from ociruntime.runtime.spec.check_schema import check_schema, problems
from tests.errors.broken_bundles import BROKEN_BUNDLES, BrokenBundle

LOADING = [entry for entry in BROKEN_BUNDLES if entry.stage == "spec"]
LATER = [entry for entry in BROKEN_BUNDLES if entry.stage != "spec"]


def refusal(bundle: Path, entry: BrokenBundle) -> ConfigError:
    (bundle / "rootfs").mkdir()
    config = entry.config()
    if config is not None:
        (bundle / "config.json").write_bytes(config)
    with pytest.raises(ConfigError) as caught:
        load_bundle(str(bundle))
    return caught.value


@pytest.mark.parametrize("entry", LOADING, ids=lambda entry: entry.name)
def test_refusal(tmp_path: Path, entry: BrokenBundle) -> None:
    line = str(refusal(tmp_path, entry))
    assert "\n" not in line
    assert not line.endswith(".")
    for words in entry.says:
        assert words in line


@pytest.mark.parametrize("entry", [one for one in LOADING if one.change], ids=lambda one: one.name)
def test_list_of_all_problems_agrees(tmp_path: Path, entry: BrokenBundle) -> None:
    line = str(refusal(tmp_path, entry))
    config = json.loads(entry.config() or b"")
    listed = [str(each) for each in problems(config, "object", schema.CONFIG)]
    try:
        check_schema(config)
    except ConfigError:
        assert listed == [line]
    else:
        assert listed == []


@pytest.mark.parametrize("entry", LATER, ids=lambda entry: entry.name)
def test_fault_does_not_show_in_loading(tmp_path: Path, entry: BrokenBundle) -> None:
    (tmp_path / "rootfs").mkdir()
    (tmp_path / "config.json").write_bytes(entry.config() or b"")
    assert load_bundle(str(tmp_path)).warnings == []


def test_all_problems_of_a_document() -> None:
    mounts = [{"destination": "/a", "options": ["ro", 5]}, {"type": "x\0"}]
    config = {"ociVersion": 1, "hostname": 2, "mounts": mounts, "annotations": {"": "x", "a": 1}}
    assert [each.where for each in problems(config, "object", schema.CONFIG)] == [
        "ociVersion",
        "root",
        "mounts[0].options[1]",
        "mounts[1].destination",
        "mounts[1].type",
        "hostname",
        "annotations",
        "annotations.a",
    ]


def test_names_are_unique() -> None:
    names = [entry.name for entry in BROKEN_BUNDLES]
    assert sorted(set(names)) == sorted(names)


def test_unbroken_default_loads(tmp_path: Path) -> None:
    (tmp_path / "rootfs").mkdir()
    (tmp_path / "config.json").write_bytes(BrokenBundle("none", ()).config() or b"")
    assert load_bundle(str(tmp_path)).warnings == []
