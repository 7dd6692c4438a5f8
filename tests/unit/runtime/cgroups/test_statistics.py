"""Counters of control files, in the form of runc's events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ociruntime.runtime.cgroups import statistics_v1, statistics_v2
from ociruntime.runtime.cgroups.cgroup import Cgroup
from ociruntime.runtime.cgroups.cgroup_directory import Placement
from ociruntime.runtime.cgroups.hierarchies import Hierarchy
from ociruntime.runtime.cgroups.statistics import statistics

UNLIMITED = (1 << 64) - 1


def fill(directory: Path, files: dict[str, str]) -> str:
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (directory / name).write_text(content)
    return str(directory)


def test_cpu_v1(tmp_path: Path) -> None:
    files = {
        "cpuacct.usage": "300\n",
        "cpuacct.usage_percpu": "100 200 \n",
        "cpuacct.usage_all": "cpu user system\n0 10 20\n1 30 40\n",
        "cpuacct.stat": "user 3\nsystem 5\n",
        "cpu.stat": "nr_periods 7\nnr_throttled 0\nthrottled_time 9\n",
    }
    where = fill(tmp_path, files)
    assert statistics_v1.cpuacct(where) == {
        "usage": {
            "total": 300,
            "percpu": [100, 200],
            "percpu_kernel": [20, 40],
            "percpu_user": [10, 30],
            "kernel": 50_000_000,
            "user": 30_000_000,
        }
    }
    assert statistics_v1.cpu(where) == {"throttling": {"periods": 7, "throttledTime": 9}}


def test_memory_v1(tmp_path: Path) -> None:
    files = {
        "memory.stat": "cache 4096\nrss 8192\n",
        "memory.limit_in_bytes": "9223372036854771712\n",
        "memory.usage_in_bytes": "12288\n",
        "memory.max_usage_in_bytes": "16384\n",
        "memory.failcnt": "2\n",
        "memory.memsw.limit_in_bytes": "5\n",
    }
    found = statistics_v1.memory(fill(tmp_path, files))
    usage = {"limit": 9223372036854771712, "usage": 12288, "max": 16384, "failcnt": 2}
    assert found == {
        "cache": 4096,
        "usage": usage,
        "swap": {"limit": 5, "failcnt": 0},
        "kernel": {"limit": 0, "failcnt": 0},
        "kernelTCP": {"limit": 0, "failcnt": 0},
        "raw": {"cache": 4096, "rss": 8192},
    }


def test_block_io_v1(tmp_path: Path) -> None:
    files = {
        "blkio.bfq.io_service_bytes_recursive": "Total 0\n",
        "blkio.throttle.io_service_bytes_recursive": "8:0 Read 512\n8:0 Write 0\nTotal 512\n",
        "blkio.bfq.time_recursive": "8:16 77\n",
    }
    assert statistics_v1.blkio(fill(tmp_path, files)) == {
        "ioServiceBytesRecursive": [
            {"major": 8, "op": "Read", "value": 512},
            {"major": 8, "op": "Write"},
        ],
        "ioTimeRecursive": [{"major": 8, "minor": 16, "value": 77}],
    }


def test_huge_pages(tmp_path: Path) -> None:
    first = {
        "hugetlb.2MB.usage_in_bytes": "4\n",
        "hugetlb.2MB.max_usage_in_bytes": "5\n",
        "hugetlb.2MB.failcnt": "6\n",
        "hugetlb.1GB.usage_in_bytes": "1\n",
        "hugetlb.1GB.rsvd.usage_in_bytes": "2\n",
        "hugetlb.1GB.rsvd.failcnt": "3\n",
    }
    assert statistics_v1.hugetlb(fill(tmp_path / "v1", first)) == {
        "1GB": {"usage": 2, "failcnt": 3},
        "2MB": {"usage": 4, "max": 5, "failcnt": 6},
    }
    second = {"hugetlb.2MB.current": "7\n", "hugetlb.2MB.events": "max 8\n"}
    found = statistics_v2.hugetlb(fill(tmp_path / "v2", second))
    assert found == {"2MB": {"usage": 7, "failcnt": 8}}


def test_cpu_v2(tmp_path: Path) -> None:
    files = {
        "cpu.stat": "usage_usec 30\nuser_usec 20\nsystem_usec 10\n"
        "nr_periods 1\nnr_throttled 2\nthrottled_usec 3\nnr_bursts 4\n",
        "cpu.pressure": "some avg10=0.50 avg60=0.00 avg300=0.00 total=12\n",
    }
    assert statistics_v2.cpu(fill(tmp_path, files)) == {
        "usage": {"total": 30000, "kernel": 10000, "user": 20000},
        "throttling": {"periods": 1, "throttledPeriods": 2, "throttledTime": 3000},
        "psi": {"some": {"avg10": 0.5, "avg60": 0.0, "avg300": 0.0, "total": 12}},
    }


@pytest.mark.parametrize(
    ("files", "usage", "swap"),
    [
        ({"memory.max": "max"}, {"limit": UNLIMITED}, {"limit": UNLIMITED}),
        (
            {"memory.current": "5", "memory.max": "9", "memory.peak": "7",
             "memory.swap.current": "1", "memory.swap.max": "10"},
            {"limit": 9, "usage": 5, "max": 7},
            {"limit": 19, "usage": 6},
        ),
        (
            {"memory.current": "5", "memory.max": "9", "memory.swap.current": "0",
             "memory.swap.max": "max"},
            {"limit": 9, "usage": 5},
            {"limit": UNLIMITED, "usage": 5},
        ),
    ],
)  # fmt: skip
def test_memory_v2(
    tmp_path: Path, files: dict[str, str], usage: dict[str, Any], swap: dict[str, Any]
) -> None:
    found = statistics_v2.memory(fill(tmp_path, {**files, "memory.stat": "file 3\nanon 4\n"}))
    assert found["usage"] == {**usage, "failcnt": 0}
    assert found["swap"] == {**swap, "failcnt": 0}
    assert (found["cache"], found["raw"]) == (3, {"file": 3, "anon": 4})


def test_block_io_v2(tmp_path: Path) -> None:
    line = "8:16 rbytes=1 wbytes=0 rios=3 wios=4 dbytes=5 dios=6 cost.usage=9\n"
    assert statistics_v2.blkio(fill(tmp_path, {"io.stat": f"{line}(unknown)\n"})) == {
        "ioServiceBytesRecursive": [
            {"major": 8, "minor": 16, "op": "Read", "value": 1},
            {"major": 8, "minor": 16, "op": "Write"},
            {"major": 8, "minor": 16, "op": "Discard", "value": 5},
        ],
        "ioServicedRecursive": [
            {"major": 8, "minor": 16, "op": "Read", "value": 3},
            {"major": 8, "minor": 16, "op": "Write", "value": 4},
            {"major": 8, "minor": 16, "op": "Discard", "value": 6},
        ],
    }


def test_block_io_v2_without_a_line_feed(tmp_path: Path) -> None:
    """Some kernels name devices without a count on the line of the next one that has any."""
    where = fill(tmp_path, {"io.stat": "7:7 7:6 8:16 rbytes=1 wbytes=0\n8:0 (unknown) rbytes=2\n"})
    assert statistics_v2.blkio(where) == {
        "ioServiceBytesRecursive": [
            {"major": 8, "minor": 16, "op": "Read", "value": 1},
            {"major": 8, "minor": 16, "op": "Write"},
        ]
    }


def test_nothing_to_count(tmp_path: Path) -> None:
    """A cgroup that has just gone, and one without a controller."""
    for controllers in ((), ("cpu", "cpuset", "io", "memory", "pids", "hugetlb")):
        place = Placement(Hierarchy(controllers, "", str(tmp_path), 2), "/gone")
        found = statistics(Cgroup("/gone", [place]))
        assert found["cpu"] == {"usage": {"kernel": 0, "user": 0}, "throttling": {}}
        assert (found["pids"], found["blkio"], found["hugetlb"]) == ({}, {}, {})
        assert found["memory"]["usage"] == {"limit": 0, "failcnt": 0}
        assert found["cpuset"]["cpu_exclusive"] == 0


def test_lists_and_limits(tmp_path: Path) -> None:
    files = {"cpuset.cpus": "0-2,5\n", "cpuset.mems": "\n", "pids.current": "3", "pids.max": "max"}
    fill(tmp_path / "c1", files)
    place = Placement(Hierarchy(("cpuset", "pids"), "", str(tmp_path), 2), "/c1")
    found = statistics(Cgroup("/c1", [place]))
    assert found["cpuset"]["cpus"] == [0, 1, 2, 5]
    assert "mems" not in found["cpuset"]
    assert found["pids"] == {"current": 3}


def test_malformed_list(tmp_path: Path) -> None:
    """A list that a later kernel writes in another form is left out."""
    fill(tmp_path / "c1", {"cpuset.cpus": "none\n", "cpuset.mems": "0\n"})
    place = Placement(Hierarchy(("cpuset",), "", str(tmp_path), 2), "/c1")
    found = statistics(Cgroup("/c1", [place]))
    assert "cpus" not in found["cpuset"]
    assert found["cpuset"]["mems"] == [0]
