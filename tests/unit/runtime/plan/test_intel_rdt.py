"""The groups that intelRdt needs, on hosts with all kinds of groups."""

from __future__ import annotations

from typing import Any

import pytest

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.plan.intel_rdt import Group, group_path, place

ROOT = "/sys/fs/resctrl"
SCHEMATA = "    MB:0= 100;1=  50\n    L3:0=00fff;1=000ff\n"


def placed(rdt: dict[str, Any], exists: bool = False, schemata: str = SCHEMATA) -> dict[str, Any]:
    """For container c1, in words."""
    path = group_path(rdt, "c1", ROOT)  # type: ignore[arg-type]  # as in config.json
    group = Group(path, exists=exists, schemata=schemata if exists else "", monitoring=True)
    found = place(rdt, "c1", group)  # type: ignore[arg-type]
    return {
        "made": [made.removeprefix(ROOT) for made in found.made],
        "lines": [
            f"{where.removeprefix('linux.intelRdt.')} {file.removeprefix(ROOT)} {line}"
            for where, file, line in found.lines
        ],
        "tasks": [file.removeprefix(ROOT) for file in found.tasks],
        "own": [own.removeprefix(ROOT) for own in found.own],
    }


PLACED: dict[str, tuple[dict[str, Any], bool, dict[str, list[str]]]] = {
    "LNX-RDT-14, -18: nothing but a group": (
        {},
        False,
        {"made": ["/c1"], "lines": [], "tasks": ["/c1/tasks"], "own": ["/c1"]},
    ),
    "LNX-RDT-04: the root group": (
        {"closID": "/"},
        True,
        {"made": [], "lines": [], "tasks": ["/tasks"], "own": []},
    ),
    "LNX-RDT-01, -13, -17, -19: a group that is there": (
        {"closID": "gold"},
        True,
        {"made": [], "lines": [], "tasks": ["/gold/tasks"], "own": []},
    ),
    "LNX-RDT-15: a group that is not": (
        {"closID": "gold", "memBwSchema": "MB:0=70"},
        False,
        {
            "made": ["/gold"],
            "lines": ["memBwSchema /gold/schemata MB:0=70"],
            "tasks": ["/gold/tasks"],
            "own": [],
        },
    ),
    "LNX-RDT-15: by schemata alone": (
        {"closID": "gold", "schemata": ["L2:0=f"]},
        False,
        {
            "made": ["/gold"],
            "lines": ["schemata[0] /gold/schemata L2:0=f"],
            "tasks": ["/gold/tasks"],
            "own": [],
        },
    ),
    "LNX-RDT-10, -12: the order": (
        {"schemata": ["L2:0=f", "L3:0=f"], "memBwSchema": "MB:0=70", "l3CacheSchema": "L3:0=ff"},
        False,
        {
            "made": ["/c1"],
            "lines": [
                "l3CacheSchema /c1/schemata L3:0=ff",
                "memBwSchema /c1/schemata MB:0=70",
                "schemata[0] /c1/schemata L2:0=f",
                "schemata[1] /c1/schemata L3:0=f",
            ],
            "tasks": ["/c1/tasks"],
            "own": ["/c1"],
        },
    ),
    "LNX-RDT-06: two lines": (
        {"l3CacheSchema": "L3:0=f\nMB:0=20\n"},
        False,
        {
            "made": ["/c1"],
            "lines": [
                "l3CacheSchema /c1/schemata L3:0=f",
                "l3CacheSchema /c1/schemata MB:0=20",
            ],
            "tasks": ["/c1/tasks"],
            "own": ["/c1"],
        },
    ),
    "LNX-RDT-10: the bandwidth of l3CacheSchema does not count": (
        {"l3CacheSchema": "MB:0=20\nL3:0=f", "memBwSchema": "MB:0=70"},
        False,
        {
            "made": ["/c1"],
            "lines": ["l3CacheSchema /c1/schemata L3:0=f", "memBwSchema /c1/schemata MB:0=70"],
            "tasks": ["/c1/tasks"],
            "own": ["/c1"],
        },
    ),
    "LNX-RDT-16: the same in other words": (
        {"closID": "gold", "l3CacheSchema": "L3:1=FF;0=fff", "memBwSchema": "MB:1=50"},
        True,
        {
            "made": [],
            "lines": [
                "l3CacheSchema /gold/schemata L3:1=FF;0=fff",
                "memBwSchema /gold/schemata MB:1=50",
            ],
            "tasks": ["/gold/tasks"],
            "own": [],
        },
    ),
    "LNX-RDT-20, -21: monitoring in a named group": (
        {"closID": "gold", "enableMonitoring": True},
        True,
        {
            "made": ["/gold/mon_groups/c1"],
            "lines": [],
            "tasks": ["/gold/tasks", "/gold/mon_groups/c1/tasks"],
            "own": ["/gold/mon_groups/c1"],
        },
    ),
    "LNX-RDT-20: monitoring in the root group": (
        {"closID": "/", "enableMonitoring": True},
        True,
        {
            "made": ["/mon_groups/c1"],
            "lines": [],
            "tasks": ["/tasks", "/mon_groups/c1/tasks"],
            "own": ["/mon_groups/c1"],
        },
    ),
    "LNX-RDT-20: monitoring in the own group": (
        {"enableMonitoring": True},
        False,
        {
            "made": ["/c1", "/c1/mon_groups/c1"],
            "lines": [],
            "tasks": ["/c1/tasks", "/c1/mon_groups/c1/tasks"],
            "own": ["/c1", "/c1/mon_groups/c1"],
        },
    ),
}


@pytest.mark.parametrize(("rdt", "exists", "wanted"), PLACED.values(), ids=PLACED)
def test_placed(rdt: dict[str, Any], exists: bool, wanted: dict[str, list[str]]) -> None:
    assert placed(rdt, exists) == wanted


REFUSED: dict[str, tuple[dict[str, Any], bool, str]] = {
    "LNX-RDT-17": (
        {"closID": "gold"},
        False,
        f'closID: resctrl group "{ROOT}/gold" does not exist',
    ),
    "LNX-RDT-17: empty schemata are none": (
        {"closID": "gold", "schemata": [], "l3CacheSchema": ""},
        False,
        "closID: resctrl group",
    ),
    "LNX-RDT-16: cache": (
        {"closID": "gold", "l3CacheSchema": "L3:0=ff"},
        True,
        'l3CacheSchema: "L3:0=ff" ',
    ),
    "LNX-RDT-16: bandwidth": (
        {"closID": "gold", "memBwSchema": "MB:0=100;1=51"},
        True,
        "memBwSchema: ",
    ),
    "LNX-RDT-16: a domain that is not there": (
        {"closID": "gold", "l3CacheSchema": "L3:2=fff"},
        True,
        "l3CacheSchema: ",
    ),
    "LNX-RDT-16: a resource that is not there": (
        {"closID": "gold", "l3CacheSchema": "L3CODE:0=fff"},
        True,
        "l3CacheSchema: ",
    ),
    "LNX-RDT-16: nonsense": (
        {"closID": "gold", "l3CacheSchema": "L3:0=nonsense"},
        True,
        "l3CacheSchema: ",
    ),
    "another owner's group": ({}, True, f'resctrl group "{ROOT}/c1" already exists'),
}


@pytest.mark.parametrize(("rdt", "exists", "words"), REFUSED.values(), ids=REFUSED)
def test_refused(rdt: dict[str, Any], exists: bool, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        placed(rdt, exists)
    assert str(caught.value).startswith("linux.intelRdt")
    assert words in str(caught.value)


def test_processor_without_monitoring() -> None:
    with pytest.raises(ConfigError, match=r"enableMonitoring: "):
        place({"enableMonitoring": True}, "c1", Group(f"{ROOT}/c1"))


def test_id_that_is_no_name_of_a_group() -> None:
    with pytest.raises(ConfigError, match="resctrl group"):
        group_path({}, "mon_groups", ROOT)
    assert group_path({"closID": "gold"}, "mon_groups", ROOT) == f"{ROOT}/gold"
