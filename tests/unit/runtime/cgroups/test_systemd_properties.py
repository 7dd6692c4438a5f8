from __future__ import annotations

from typing import Any

import pytest

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.cgroups.device_policy import policy
from ociruntime.runtime.cgroups.resources import settings
from ociruntime.runtime.cgroups.systemd_properties import (
    INFINITY,
    amount,
    device_properties,
    limits,
    subgroup,
    unit_properties,
)

V2 = dict.fromkeys(("", "cpu", "cpuset", "io", "memory", "pids", "hugetlb"), 2)
V1 = dict.fromkeys(("cpu", "cpuset", "blkio", "memory", "pids"), 1)
MIB = 1 << 20
NEW = 257


def found(
    resources: dict[str, Any], versions: dict[str, int], version: int = NEW
) -> dict[str, Any]:
    """Name -> (signature, value)."""
    properties = limits(settings(resources, versions), version)
    assert len({name for name, _, _ in properties}) == len(properties)
    return {name: (signature, value) for name, signature, value in properties}


ON_V2: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"memory": {"limit": 64 * MIB}}, {"MemoryMax": ("t", 64 * MIB)}),
    (
        {"memory": {"limit": -1}},
        {"MemorySwapMax": ("t", INFINITY), "MemoryMax": ("t", INFINITY)},
    ),
    (
        {"memory": {"limit": 64, "swap": 96, "reservation": 32}},
        {"MemoryLow": ("t", 32), "MemorySwapMax": ("t", 32), "MemoryMax": ("t", 64)},
    ),
    ({"pids": {"limit": 7}}, {"TasksMax": ("t", 7)}),
    ({"pids": {"limit": -1}}, {"TasksMax": ("t", INFINITY)}),
    ({"pids": {"limit": 0}}, {"TasksMax": ("t", 1)}),
    ({"cpu": {"shares": 1024}}, {"CPUWeight": ("t", 100)}),
    ({"cpu": {"idle": 1}}, {"CPUWeight": ("t", 0)}),
    ({"cpu": {"idle": 0}}, {}),
    (
        {"cpu": {"quota": 50000, "period": 100000}},
        {"CPUQuotaPeriodUSec": ("t", 100000), "CPUQuotaPerSecUSec": ("t", 500000)},
    ),
    ({"cpu": {"quota": 50000}}, {"CPUQuotaPerSecUSec": ("t", 500000)}),
    # A third of a processor is 33.4 percent, and systemd has whole ones.
    (
        {"cpu": {"quota": 10000, "period": 30000}},
        {"CPUQuotaPeriodUSec": ("t", 30000), "CPUQuotaPerSecUSec": ("t", 340000)},
    ),
    ({"cpu": {"quota": -1}}, {"CPUQuotaPerSecUSec": ("t", INFINITY)}),
    ({"cpu": {"period": 50000}}, {"CPUQuotaPeriodUSec": ("t", 50000)}),
    (
        {"cpu": {"cpus": "0-2,9", "mems": "0"}},
        {"AllowedCPUs": ("ay", b"\x07\x02"), "AllowedMemoryNodes": ("ay", b"\x01")},
    ),
    ({"blockIO": {"weight": 10}}, {"IOWeight": ("t", 1)}),
    (
        {"blockIO": {"weightDevice": [{"major": 8, "minor": 0, "weight": 1000}]}},
        {"IODeviceWeight": ("a(st)", [("/dev/block/8:0", 10000)])},
    ),
    (
        {
            "blockIO": {
                "throttleReadBpsDevice": [
                    {"major": 8, "minor": 0, "rate": 5},
                    {"major": 8, "minor": 16, "rate": 0},
                ],
                "throttleWriteIOPSDevice": [{"major": 8, "minor": 0, "rate": 9}],
            }
        },
        {
            "IOReadBandwidthMax": (
                "a(st)",
                [("/dev/block/8:0", 5), ("/dev/block/8:16", INFINITY)],
            ),
            "IOWriteIOPSMax": ("a(st)", [("/dev/block/8:0", 9)]),
        },
    ),
    ({"hugepageLimits": [{"pageSize": "2MB", "limit": 0}]}, {}),
    (
        {"unified": {"memory.high": "48M", "memory.min": "1024", "memory.low": "max"}},
        {
            "MemoryHigh": ("t", 48 * MIB),
            "MemoryMin": ("t", 1024),
            "MemoryLow": ("t", INFINITY),
        },
    ),
    (
        {"unified": {"cpu.weight": "5", "pids.max": "max"}},
        {"CPUWeight": ("t", 5), "TasksMax": ("t", INFINITY)},
    ),
    (
        {"unified": {"cpu.max": "max 20000"}},
        {"CPUQuotaPeriodUSec": ("t", 20000), "CPUQuotaPerSecUSec": ("t", INFINITY)},
    ),
    ({"unified": {"io.weight": "default 50"}}, {"IOWeight": ("t", 50)}),
    (
        {"unified": {"io.weight": "50\n8:0 70"}},
        {"IOWeight": ("t", 50), "IODeviceWeight": ("a(st)", [("/dev/block/8:0", 70)])},
    ),
    (
        {"unified": {"io.max": "8:0 rbps=5 wbps=max\n8:16 riops=1"}},
        {
            "IOReadBandwidthMax": ("a(st)", [("/dev/block/8:0", 5)]),
            "IOWriteBandwidthMax": ("a(st)", [("/dev/block/8:0", INFINITY)]),
            "IOReadIOPSMax": ("a(st)", [("/dev/block/8:16", 1)]),
        },
    ),
    # What is no value at all is left to the kernel to refuse.
    ({"unified": {"memory.high": "lots", "cpuset.cpus": "x", "cpu.max": ""}}, {}),
    # The later one wins, as it does in the files.
    ({"memory": {"limit": 64}, "unified": {"memory.max": "32"}}, {"MemoryMax": ("t", 32)}),
]


@pytest.mark.parametrize(("resources", "expected"), ON_V2)
def test_limits_on_v2(resources: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found(resources, V2) == expected


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"memory": {"limit": 64 * MIB, "swap": 96 * MIB}}, {"MemoryLimit": ("t", 64 * MIB)}),
        ({"cpu": {"shares": 512}}, {"CPUShares": ("t", 512)}),
        (
            {"cpu": {"quota": 50000, "period": 200000}},
            {"CPUQuotaPeriodUSec": ("t", 200000), "CPUQuotaPerSecUSec": ("t", 250000)},
        ),
        ({"cpu": {"quota": -1}}, {"CPUQuotaPerSecUSec": ("t", INFINITY)}),
        ({"cpu": {"cpus": "0"}}, {}),
        ({"pids": {"limit": 7}}, {"TasksMax": ("t", 7)}),
        ({"blockIO": {"weight": 500}}, {"BlockIOWeight": ("t", 500)}),
        (
            {"blockIO": {"throttleWriteBpsDevice": [{"major": 8, "minor": 0, "rate": 5}]}},
            {"BlockIOWriteBandwidth": ("a(st)", [("/dev/block/8:0", 5)])},
        ),
    ],
)
def test_limits_on_v1(resources: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found(resources, V1) == expected


def test_an_old_systemd_is_told_what_it_knows() -> None:
    resources = {"cpu": {"cpus": "0", "quota": 50000, "period": 200000, "shares": 2}}
    assert set(found(resources, V2, 241)) == {"CPUQuotaPerSecUSec", "CPUWeight"}
    assert found(resources, V2, 241)["CPUQuotaPerSecUSec"] == ("t", 250000)
    assert "AllowedCPUs" in found(resources, V2, 244)
    assert found({"cpu": {"idle": 1}}, V2, 251) == {}


@pytest.mark.parametrize(
    ("text", "value"),
    [("5", 5), ("max", INFINITY), ("-1", INFINITY), ("1K", 1024), ("2g", 2 << 30), ("", None),
     ("K", None), ("1.5", None), ("-2", None), ("1" * 30, INFINITY), ("9" * 5000, INFINITY),
     ("0" * 5000 + "7", 7)],
)  # fmt: skip
def test_amounts(text: str, value: int | None) -> None:
    assert amount(text) == value


GROUPS = "Character devices:\n  1 mem\n136 pts\n 10 misc\n\nBlock devices:\n  8 sd\n"


def device_rules(*entries: dict[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    (_, _, verdict), (_, _, allowed) = device_properties(policy(entries, ""), GROUPS)
    return verdict, allowed


def test_devices() -> None:
    verdict, allowed = device_rules(
        {"allow": False, "access": "rwm"},
        {"allow": True, "type": "b", "major": 8, "access": "r"},
        {"allow": True, "type": "c", "major": 10, "minor": 200, "access": "rw"},
    )
    assert verdict == "strict"
    assert allowed[:2] == [("char-*", "m"), ("block-*", "m")]
    assert {("char-pts", "rwm"), ("/dev/char/1:3", "rwm")} <= set(allowed)
    assert {("block-sd", "rm"), ("/dev/char/10:200", "rwm")} <= set(allowed)


@pytest.mark.parametrize(
    "rule",
    [
        {"allow": True, "access": "rwm"},  # everything
        {"allow": True, "type": "c", "minor": 5},  # of every major number
        {"allow": True, "type": "c", "major": 77},  # which /proc/devices has not
        {"allow": False, "type": "c", "major": 1, "minor": 3, "access": "r"},
    ],
)
def test_devices_that_a_unit_cannot_name(rule: dict[str, Any]) -> None:
    """An unusual rule is left to the eBPF program; one that systemd supports becomes a property."""
    verdict, allowed = device_rules(rule)
    if rule["allow"]:
        assert (verdict, allowed) == ("auto", [])
    else:
        assert verdict == "strict"
        assert ("/dev/char/1:3", "wm") in allowed


def asked(name: str, text: str) -> tuple[str, str, Any]:
    (found,) = unit_properties({f"org.systemd.property.{name}": text, "other": "5"}).values()
    return found


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("Description", "'a b'", ("Description", "s", "a b")),
        ("TasksMax", "uint64 5", ("TasksMax", "t", 5)),
        ("SendSIGHUP", "true", ("SendSIGHUP", "b", True)),
        ("TimeoutStopSec", "5", ("TimeoutStopUSec", "t", 5_000_000)),
        ("TimeoutStopSec", "uint64 5", ("TimeoutStopUSec", "t", 5_000_000)),
        ("TimeoutStopSec", "0.25", ("TimeoutStopUSec", "t", 250_000)),
        ("TimeoutStopUSec", "uint64 5", ("TimeoutStopUSec", "t", 5)),
        ("After", "['a.service']", ("After", "as", ["a.service"])),
    ],
)
def test_annotations(name: str, text: str, expected: tuple[str, str, Any]) -> None:
    assert asked(name, text) == expected


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("Description", "a", "must be quoted"),
        ("Description", "", "got nothing"),
        ("", "true", "property name"),
        ("a.b", "true", "property name"),
        ("Ünit", "true", "property name"),
        ("Slice", "'a.slice'", "is reserved"),
        ("Description", "'\ud800'", "not valid Unicode"),
        ("Delegate", "false", "is reserved"),
        ("TimeoutStopSec", "'5'", "number of seconds"),
        ("TimeoutStopSec", "-5", "number of seconds"),
        ("TimeoutStopSec", "nan", "number of seconds"),
        ("TimeoutStopSec", "inf", "number of seconds"),
    ],
)
def test_annotations_refused(name: str, text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        asked(name, text)
    assert caught.value.where == f'annotations["org.systemd.property.{name}"]'
    assert words in str(caught.value)


def test_subgroup() -> None:
    key = "run.oci.systemd.subgroup"
    assert subgroup({}) == ""
    assert subgroup({key: ""}) == ""
    assert subgroup({key: "container"}) == "container"
    for name in ("..", ".", "a/b", "cgroup.procs", "memory.max", "a\0"):
        with pytest.raises(ConfigError, match=r"annotations\["):
            subgroup({key: name})
