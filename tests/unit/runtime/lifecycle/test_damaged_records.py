"""A damaged file of a state directory is reported in a line that names it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ociruntime.base.errors import ContainerError
from ociruntime.runtime.lifecycle.container import load, recorded_cgroup
from ociruntime.runtime.lifecycle.mounts_add_remove import read_added
from ociruntime.runtime.lifecycle.root_mount import read
from tests.unit.runtime.lifecycle.test_fast_path_record import FACTS, changed

PLACEMENT: dict[str, Any] = {
    "version": 1,
    "controllers": ["memory"],
    "name": "",
    "mountpoint": "/nowhere",
    "existing": 0,
    "adopted": False,
}
CGROUP = {"path": "/c1", "placements": [PLACEMENT]}
UNIT = {**CGROUP, "unit": "a.scope", "user": False, "subgroup": ""}
ROOT_MOUNT = {
    "rootfs": "/r",
    "number": 1,
    "unique": 2,
    "boot": "b",
    "namespace": 3,
    "device": "0:1",
    "source": "/",
    "pid": 4,
    "started": 5,
    "inside": [1],
    "may_mount": True,
}


def without(document: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key != name}


def refused(directory: Path, name: str, document: object, reader: Callable[[str], object]) -> None:
    directory.mkdir(exist_ok=True)
    (directory / name).write_text(json.dumps(document))
    with pytest.raises(ContainerError, match=f'read "{directory}/{name}": .* damaged'):
        reader(str(directory))


@pytest.mark.parametrize(
    "facts",
    [
        *(without(FACTS, name) for name in FACTS if name != "version"),
        changed(pid="71"),
        changed(processStart=None),
        changed(annotations=[]),
        changed(seccompAgent=["/agent"]),
        changed(seccompAgent=[1, None]),
        changed(seccompAgent="/agent"),
    ],
)
def test_state(tmp_path: Path, facts: dict[str, Any]) -> None:
    refused(tmp_path / "one", "state.json", facts, lambda _: load(str(tmp_path), "one"))


@pytest.mark.parametrize("agent", [None, ["/agent", None], ["/agent", "metadata"]])
def test_sound_state(tmp_path: Path, agent: object) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "state.json").write_text(json.dumps(changed(seccompAgent=agent, new=1)))
    assert load(str(tmp_path), "one").pid == 71


@pytest.mark.parametrize(
    "document",
    [
        [],
        "unit",
        *(without(CGROUP, name) for name in CGROUP),
        {**CGROUP, "placements": 5},
        {**CGROUP, "placements": ["x"]},
        *({**CGROUP, "placements": [without(PLACEMENT, name)]} for name in PLACEMENT),
        {**CGROUP, "placements": [{**PLACEMENT, "controllers": [False]}]},
        *(without(UNIT, name) for name in ("path", "user", "subgroup")),
    ],
)
def test_cgroup(tmp_path: Path, document: object) -> None:
    refused(tmp_path, "cgroup.json", document, recorded_cgroup)


def test_sound_cgroup(tmp_path: Path) -> None:
    for document, unit in ((CGROUP, ""), (UNIT, "a.scope")):
        (tmp_path / "cgroup.json").write_text(json.dumps(document))
        assert recorded_cgroup(str(tmp_path)).unit == unit


@pytest.mark.parametrize(
    "document", [False, {}, [["/a", 1]], [["/a", 1, 2, 3]], [[1, 1, 2]], ["/a"]]
)
def test_added_mounts(tmp_path: Path, document: object) -> None:
    refused(tmp_path, "mounts.json", document, read_added)


@pytest.mark.parametrize(
    "document", [[], *(without(ROOT_MOUNT, name) for name in ROOT_MOUNT), {**ROOT_MOUNT, "pid": ""}]
)
def test_root_mount(tmp_path: Path, document: object) -> None:
    refused(tmp_path, "root-mount.json", document, read)


def test_sound_root_mount(tmp_path: Path) -> None:
    (tmp_path / "root-mount.json").write_text(json.dumps({**ROOT_MOUNT, "inside": None, "new": 1}))
    assert read(str(tmp_path)).pid == 4
