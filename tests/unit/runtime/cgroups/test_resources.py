"""linux.resources as control files, for each kind of host."""

from __future__ import annotations

from typing import Any

import pytest

from ociruntime.base.cpu_shares import weight_of_shares
from ociruntime.base.errors import ConfigError
from ociruntime.runtime.cgroups.resources import settings
from ociruntime.runtime.cgroups.settings_v2 import io_weight
from ociruntime.runtime.cgroups.shared_settings import Setting

V1_NAMES = ("cpu", "cpuset", "memory", "pids", "blkio", "hugetlb", "net_cls", "net_prio", "rdma")
V1 = dict.fromkeys(V1_NAMES, 1)
V2_NAMES = ("cpu", "cpuset", "memory", "pids", "io", "hugetlb", "rdma", "misc")
V2 = {"": 2} | dict.fromkeys(V2_NAMES, 2)
HYBRID = dict.fromkeys(["cpu", "memory", "pids", "blkio"], 1) | {"": 2, "hugetlb": 2}

GIB = 1 << 30
DISK = {"major": 8, "minor": 16}


def written(found: list[Setting]) -> list[tuple[str, str]]:
    """The first choice of each."""
    return [each.files[0] for each in found]


MEMORY = {"limit": GIB, "swap": 3 * GIB, "reservation": GIB // 2}
CPU = {"shares": 1024, "quota": 50000, "period": 100000, "burst": 2000, "cpus": "0-1", "mems": "0"}
BLOCK_IO = {
    "weight": 500,
    "weightDevice": [{**DISK, "weight": 100}],
    "throttleReadBpsDevice": [{**DISK, "rate": 1000}],
    "throttleWriteBpsDevice": [{**DISK, "rate": 2000}],
    "throttleReadIOPSDevice": [{**DISK, "rate": 3000}],
    "throttleWriteIOPSDevice": [{**DISK, "rate": 0}],
}


ON_V1: list[tuple[dict[str, Any], list[tuple[str, str]] | None]] = [
    (
        {"memory": MEMORY},
        [
            ("memory.soft_limit_in_bytes", "536870912"),
            ("memory.limit_in_bytes", "1073741824"),
            ("memory.memsw.limit_in_bytes", "3221225472"),
        ],
    ),
    (
        {"memory": {"limit": -1}},
        [("memory.limit_in_bytes", "-1"), ("memory.memsw.limit_in_bytes", "-1")],
    ),
    (
        {"memory": {"kernel": 1, "kernelTCP": 2, "swappiness": 0, "useHierarchy": True}},
        [
            ("memory.swappiness", "0"),
            ("memory.use_hierarchy", "1"),
            ("memory.kmem.limit_in_bytes", "1"),
            ("memory.kmem.tcp.limit_in_bytes", "2"),
        ],
    ),
    ({"memory": {"disableOOMKiller": True}}, [("memory.oom_control", "1")]),
    ({"memory": {"disableOOMKiller": False, "limit": 0, "swap": 0}}, []),
    ({"memory": {"swappiness": 2**64 - 1}}, []),
    (
        {"cpu": CPU},
        [
            ("cpuset.cpus", "0-1"),
            ("cpuset.mems", "0"),
            ("cpu.shares", "1024"),
            ("cpu.cfs_period_us", "100000"),
            ("cpu.cfs_quota_us", "50000"),
            ("cpu.cfs_burst_us", "2000"),
        ],
    ),
    ({"cpu": {"quota": -1}}, [("cpu.cfs_quota_us", "-1")]),
    ({"cpu": {"shares": 0, "quota": 0, "period": 0, "cpus": "", "mems": ""}}, []),
    (
        {"cpu": {"realtimeRuntime": 0, "realtimePeriod": 9000, "idle": 1}},
        [("cpu.idle", "1"), ("cpu.rt_period_us", "9000"), ("cpu.rt_runtime_us", "0")],
    ),
    ({"pids": {"limit": 0}}, [("pids.max", "0")]),
    ({"pids": {"limit": -1}}, [("pids.max", "max")]),
    ({"pids": {}}, []),
    (
        {"blockIO": BLOCK_IO},
        [
            ("blkio.weight", "500"),
            ("blkio.weight_device", "8:16 100"),
            ("blkio.throttle.read_bps_device", "8:16 1000"),
            ("blkio.throttle.write_bps_device", "8:16 2000"),
            ("blkio.throttle.read_iops_device", "8:16 3000"),
            ("blkio.throttle.write_iops_device", "8:16 0"),
        ],
    ),
    ({"blockIO": {"weight": 0, "leafWeight": 0}}, []),
    (
        {"hugepageLimits": [{"pageSize": "2MB", "limit": 0}]},
        [("hugetlb.2MB.rsvd.limit_in_bytes", "0"), ("hugetlb.2MB.limit_in_bytes", "0")],
    ),
    (
        {"network": {"classID": 1048577, "priorities": [{"name": "eth0", "priority": 5}]}},
        [("net_cls.classid", "1048577"), ("net_prio.ifpriomap", "eth0 5")],
    ),
    (
        {"rdma": {"m5": {"hcaHandles": 3, "hcaObjects": 10}, "m4": {"hcaObjects": 0}}},
        [
            ("rdma.max", "m5 hca_handle=3 hca_object=10"),
            ("rdma.max", "m4 hca_object=0"),
        ],
    ),
    ({"pids": {"limit": 5}, "memory": {"limit": 9}}, None),
    ({}, []),
]


@pytest.mark.parametrize(("resources", "expected"), ON_V1)
def test_v1(resources: dict[str, Any], expected: list[tuple[str, str]] | None) -> None:
    found = settings(resources, V1)
    assert {each.version for each in found} <= {1}
    if expected is None:
        assert found[-1].controller == "memory"
    else:
        assert written(found) == expected


ON_V2: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    (
        {"memory": MEMORY},
        [
            ("memory.low", "536870912"),
            ("memory.swap.max", "2147483648"),
            ("memory.max", "1073741824"),
        ],
    ),
    ({"memory": {"limit": -1}}, [("memory.swap.max", "max"), ("memory.max", "max")]),
    ({"memory": {"swap": -1}}, [("memory.swap.max", "max")]),
    ({"memory": {"limit": 5, "swap": 5}}, [("memory.swap.max", "0"), ("memory.max", "5")]),
    ({"memory": {"reservation": -1}}, [("memory.low", "max")]),
    (
        {"cpu": CPU},
        [
            ("cpuset.cpus", "0-1"),
            ("cpuset.mems", "0"),
            ("cpu.weight", "100"),
            ("cpu.max", "50000 100000"),
            ("cpu.max.burst", "2000"),
        ],
    ),
    ({"cpu": {"quota": 5000}}, [("cpu.max", "5000")]),
    ({"cpu": {"quota": -1, "period": 7000}}, [("cpu.max", "max 7000")]),
    ({"cpu": {"idle": 1}}, [("cpu.idle", "1")]),
    ({"pids": {"limit": 0}}, [("pids.max", "0")]),
    ({"pids": {"limit": -1}}, [("pids.max", "max")]),
    (
        {"blockIO": BLOCK_IO},
        [
            ("io.bfq.weight", "500"),
            ("io.bfq.weight", "8:16 100"),
            ("io.max", "8:16 rbps=1000"),
            ("io.max", "8:16 wbps=2000"),
            ("io.max", "8:16 riops=3000"),
            ("io.max", "8:16 wiops=max"),
        ],
    ),
    (
        {"hugepageLimits": [{"pageSize": "64KB", "limit": 7}]},
        [("hugetlb.64KB.rsvd.max", "7"), ("hugetlb.64KB.max", "7")],
    ),
    ({"rdma": {"m": {"hcaHandles": 3}}}, [("rdma.max", "m hca_handle=3")]),
    (
        {"unified": {"memory.high": "5", "cgroup.max.depth": "3", "misc.max": "a 1\nb 2"}},
        [("memory.high", "5"), ("cgroup.max.depth", "3"), ("misc.max", "a 1\nb 2")],
    ),
    ({"memory": {"disableOOMKiller": False, "useHierarchy": True, "kernel": 0}}, []),
    ({"network": {"classID": 0, "priorities": []}}, []),
    ({"cpu": {"realtimeRuntime": 0}, "blockIO": {"weight": 0}}, []),
]


@pytest.mark.parametrize(("resources", "expected"), ON_V2)
def test_v2(resources: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    found = settings(resources, V2)
    assert written(found) == expected
    assert {each.version for each in found} <= {2}


def test_unified_comes_last() -> None:
    found = settings({"unified": {"cpu.weight": "7"}, "memory": {"limit": 9}}, V2)
    assert written(found) == [("memory.max", "9"), ("cpu.weight", "7")]


def test_a_period_alone_keeps_the_quota() -> None:
    (found,) = settings({"cpu": {"period": 7000}}, V2)
    assert (found.files, found.keep_first) == ((("cpu.max", "7000"),), True)
    (found,) = settings({"cpu": {"quota": 7000}}, V2)
    assert not found.keep_first


def test_check_before_update_names_the_usage() -> None:
    memory = {"limit": 9, "checkBeforeUpdate": True}
    assert [each.floor for each in settings({"memory": memory}, V1)] == ["memory.usage_in_bytes"]
    assert [each.floor for each in settings({"memory": memory}, V2)] == ["memory.current"]


def test_second_choices() -> None:
    (weight,) = settings({"blockIO": {"weight": 10}}, V2)
    assert weight.files == (("io.bfq.weight", "10"), ("io.weight", "1"))
    (weight,) = settings({"blockIO": {"weight": 10}}, V1)
    assert weight.files == (("blkio.weight", "10"), ("blkio.bfq.weight", "10"))
    reserved, faulted = settings({"hugepageLimits": [{"pageSize": "1GB", "limit": 1}]}, V2)
    assert (reserved.optional, faulted.optional) == (True, False), "before Linux 5.7"


def test_hybrid_takes_each_controller_where_it_is() -> None:
    resources = {
        "memory": {"limit": 9, "swappiness": 3},
        "hugepageLimits": [{"pageSize": "2MB", "limit": 1}],
        "blockIO": {"throttleReadBpsDevice": [{**DISK, "rate": 1}]},
        "unified": {"hugetlb.2MB.max": "5", "cgroup.max.descendants": "2"},
    }
    assert written(settings(resources, HYBRID)) == [
        ("blkio.throttle.read_bps_device", "8:16 1"),
        ("hugetlb.2MB.rsvd.max", "1"),
        ("hugetlb.2MB.max", "1"),
        ("memory.swappiness", "3"),
        ("memory.limit_in_bytes", "9"),
        ("hugetlb.2MB.max", "5"),
        ("cgroup.max.descendants", "2"),
    ]


REFUSED: list[tuple[dict[str, Any], dict[str, int], str, str]] = [
    ({"memory": {"swappiness": 0}}, V2, "memory.swappiness", "no equivalent"),
    ({"memory": {"kernel": 5}}, V2, "memory.kernel", "no equivalent"),
    ({"memory": {"kernelTCP": 5}}, V2, "memory.kernelTCP", "no equivalent"),
    ({"memory": {"disableOOMKiller": True}}, V2, "memory.disableOOMKiller", "no equivalent"),
    ({"memory": {"useHierarchy": False}}, V2, "memory.useHierarchy", "no equivalent"),
    ({"memory": {"swap": 5}}, V2, "memory.swap", "a memory limit"),
    ({"memory": {"swap": 5, "limit": -1}}, V2, "memory.swap", "a memory limit"),
    ({"memory": {"swap": 5, "limit": 6}}, V2, "memory.swap", "below the memory"),
    ({"memory": {"swap": 5, "limit": 6}}, V1, "memory.swap", "below the memory"),
    ({"memory": {"swap": 5, "limit": -1}}, V1, "memory.swap", "below the memory"),
    ({"cpu": {"realtimeRuntime": 5}}, V2, "cpu.realtimeRuntime", "no equivalent"),
    ({"cpu": {"realtimePeriod": 5}}, V2, "cpu.realtimePeriod", "no equivalent"),
    ({"blockIO": {"leafWeight": 5}}, V2, "blockIO.leafWeight", "no equivalent"),
    (
        {"blockIO": {"weightDevice": [{**DISK, "leafWeight": 5, "weight": 1}]}},
        V2,
        "blockIO.weightDevice[0].leafWeight",
        "no equivalent",
    ),
    ({"blockIO": {"weightDevice": [DISK]}}, V2, "blockIO.weightDevice[0]", "is required"),
    ({"blockIO": {"weightDevice": [DISK]}}, V1, "blockIO.weightDevice[0]", "is required"),
    ({"network": {"classID": 5}}, V2, "network.classID", "no equivalent"),
    (
        {"network": {"priorities": [{"name": "lo", "priority": 1}]}},
        V2,
        "network.priorities",
        "no equivalent",
    ),
    ({"rdma": {"m": {}}}, V2, 'rdma["m"]', "hcaHandles or hcaObjects"),
    ({"rdma": {"a b": {"hcaObjects": 1}}}, V1, 'rdma["a b"]', "RDMA device name"),
    (
        {"hugepageLimits": [{"pageSize": "../x", "limit": 1}]},
        V1,
        "hugepageLimits[0].pageSize",
        "huge page size",
    ),
    (
        {"hugepageLimits": [{"pageSize": "2mb", "limit": 1}]},
        V2,
        "hugepageLimits[0].pageSize",
        "huge page size",
    ),
    ({"unified": {"memory.high": "1"}}, V1, 'unified["memory.high"]', "needs cgroup v2"),
    ({"unified": {"memory.high": "1"}}, HYBRID, 'unified["memory.high"]', "in v1"),
    ({"unified": {"nosuch.max": "1"}}, V2, 'unified["nosuch.max"]', "no cgroup controller"),
    ({"unified": {"../x.y": "1"}}, V2, 'unified["../x.y"]', "control file"),
    ({"unified": {"memory": "1"}}, V2, 'unified["memory"]', "control file"),
    ({"unified": {".max": "1"}}, V2, 'unified[".max"]', "control file"),
    ({"unified": {"a.b\0c": "1"}}, V2, 'unified["a.b\0c"]', "control file"),
    ({"unified": {"cgroup.procs": "1"}}, V2, 'unified["cgroup.procs"]', "not a resource"),
    ({"unified": {"cgroup.kill": "1"}}, V2, 'unified["cgroup.kill"]', "not a resource"),
    ({"pids": {"limit": 4}}, {"": 2, "cpu": 2}, "pids.limit", '"pids".*available controllers: cpu'),
    ({"pids": {"limit": 4}}, {}, "pids.limit", "available controllers: none"),
    ({"network": {"classID": 5}}, HYBRID, "network.classID", '"net_cls"'),
    ({"memory": {"limit": 4}}, {"cpu": 1}, "memory.limit", '"memory"'),
]


@pytest.mark.parametrize(("resources", "versions", "where", "words"), REFUSED)
def test_refused(
    resources: dict[str, Any], versions: dict[str, int], where: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        settings(resources, versions)
    assert caught.value.where == f"linux.resources.{where}"


def test_no_limit_needs_no_controller() -> None:
    assert settings({"pids": {"limit": -1}}, {"": 2}) == []
    assert settings({"pids": {"limit": -1}, "network": {}}, {}) == []


@pytest.mark.parametrize(
    ("shares", "weight"),
    [
        (1, 1),
        (2, 1),
        (100, 17),
        (512, 59),
        (1024, 100),
        (2048, 174),
        (262144, 10000),
        (10**6, 10000),
    ],
)
def test_shares_as_weight(shares: int, weight: int) -> None:
    assert weight_of_shares(shares) == weight


def test_shares_as_weight_never_falls() -> None:
    weights = [weight_of_shares(shares) for shares in range(1, 262145, 97)]
    assert weights == sorted(weights)


@pytest.mark.parametrize(("weight", "converted"), [(10, 1), (505, 5000), (1000, 10000)])
def test_io_weight(weight: int, converted: int) -> None:
    assert io_weight(weight) == converted
