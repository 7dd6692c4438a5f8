"""The file ``entry`` follows from state.json and cgroup.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ociruntime.base.errors import HostError
from ociruntime.base.json_text import dump
from ociruntime.runtime.cgroups.cgroup import Cgroup
from ociruntime.runtime.cgroups.hierarchies import Hierarchy, Layout
from ociruntime.runtime.lifecycle.fast_path_record import Removal, entry_text, removal, write_entry
from ociruntime.runtime.spec.state_document import state_output

FACTS: dict[str, Any] = {
    "version": 1,
    "id": "one",
    "pid": 71,
    "processStart": 4711,
    "bundle": '/b/"pid": 0/"status": ""',
    "rootfs": "/b/rootfs",
    "created": "2026-01-01T00:00:00.000000000Z",
    "annotations": {},
    "freezer": "/cg/freezer/one/freezer.state",
    "ownPidNamespace": True,
    "hooks": {},
    "seccompAgent": None,
    "notified": False,
    "startSteps": [[5, 20, "process"]],
}
CGROUPS = Removal(["/cg/cpu/a/one", "/cg/memory/a/one"], ["/cg/cpu/a", "/cg/memory/a"])


def changed(**facts: object) -> dict[str, Any]:
    return {**FACTS, **facts}


def lines(facts: dict[str, Any], cgroups: Removal | None = CGROUPS) -> list[str]:
    return entry_text(facts, cgroups, 0, "root").partition("\n\n")[0].splitlines()


def test_lines() -> None:
    assert lines(FACTS) == [
        "ociruntime-entry 1",
        "pid 71",
        "started 4711",
        "freezer /cg/freezer/one/freezer.state",
        "own-pid-namespace 1",
        "start 1",
        "delete 1",
        "owner 0",
        "cgroup /cg/cpu/a/one",
        "cgroup /cg/memory/a/one",
        "parent /cg/cpu/a",
        "parent /cg/memory/a",
    ]


@pytest.mark.parametrize(
    ("facts", "cgroups", "line"),
    [
        (changed(startSteps=[]), CGROUPS, "start 0"),
        (changed(seccompAgent=["/agent", None]), CGROUPS, "start 0"),
        (changed(notified=True), CGROUPS, "start 0"),
        (changed(hooks={"poststart": [{"path": "/h"}]}), CGROUPS, "start 0"),
        (changed(hooks={"poststart": [{"path": "/h"}]}), CGROUPS, "delete 1"),
        (changed(hooks={"poststop": [{"path": "/h"}]}), CGROUPS, "delete 0"),
        (changed(hooks={"poststop": [{"path": "/h"}]}), CGROUPS, "start 1"),
        (FACTS, None, "delete 0"),
        (changed(ownPidNamespace=False), CGROUPS, "own-pid-namespace 0"),
        (changed(freezer=""), CGROUPS, "freezer "),
    ],
)
def test_what_is_left_to_python(facts: dict[str, Any], cgroups: Removal | None, line: str) -> None:
    assert line in lines(facts, cgroups)


@pytest.mark.parametrize("annotations", [{}, {"k": "caf\u00e9 \0 \n"}])
def test_state_text(annotations: dict[str, str]) -> None:
    """Put together again, it is what `state` prints."""
    facts = changed(annotations=annotations)
    text = entry_text(facts, CGROUPS, 1000, "somebody").partition("\n\n")[2]
    head, middle, tail = text.split("\0")
    expected = dump(state_output(facts, "running", 71, "somebody"), 2) + "\n"
    assert f"{head}71{middle}running{tail}" == expected


def test_names_with_line_feeds_are_left_to_python() -> None:
    assert entry_text(FACTS, Removal(["/cg/a\nparent /etc"], []), 0, "root") == ""
    assert entry_text(changed(freezer="/cg/\n"), CGROUPS, 0, "root") == ""


def test_bytes_of_paths_survive(tmp_path: Path) -> None:
    write_entry(str(tmp_path), changed(freezer="/cg/\udcff"), CGROUPS, 0, "root")
    assert b"\nfreezer /cg/\xff\n" in (tmp_path / "entry").read_bytes()
    assert (tmp_path / "entry").stat().st_mode & 0o777 == 0o600
    with pytest.raises(HostError):
        write_entry(str(tmp_path), FACTS, CGROUPS, 0, "root")


def test_removal(tmp_path: Path) -> None:
    """Only what is not there yet, the container's own apart, parents from below."""
    (tmp_path / "v1" / "a").mkdir(parents=True)
    (tmp_path / "v2" / "a" / "b" / "c").mkdir(parents=True)
    (tmp_path / "v3").mkdir()
    hierarchies = tuple(
        Hierarchy((name,), "", str(tmp_path / name), 1) for name in ("v1", "v2", "v3")
    )
    cgroup = Cgroup.plan(Layout("v1", hierarchies), "/a/b/c", "one")
    cgroup.record()
    found = removal(cgroup)
    assert found.own == [f"{tmp_path}/v1/a/b/c", f"{tmp_path}/v3/a/b/c"]
    assert found.parents == [f"{tmp_path}/v1/a/b", f"{tmp_path}/v3/a/b", f"{tmp_path}/v3/a"]
