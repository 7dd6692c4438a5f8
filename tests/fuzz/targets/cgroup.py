"""Control files of a cgroup, /proc/PID/cgroup and the resulting statistics.

An input is a list of ``NAME CONTENT`` entries, separated by NUL.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from unittest import mock

from ociruntime.base.json_text import dump
from ociruntime.base.mountinfo import parse_mountinfo
from ociruntime.manager.containers import resource_usage
from ociruntime.runtime.cgroups import control_files, statistics_v1, statistics_v2
from ociruntime.runtime.cgroups.cgroup_processes import pids
from ociruntime.runtime.cgroups.delegation import visible_directories
from ociruntime.runtime.cgroups.freezer import event, frozen
from ociruntime.runtime.cgroups.hierarchies import (
    Hierarchy,
    Layout,
    assemble,
    cgroup_mounts,
    parse_existing,
)
from ociruntime.runtime.cgroups.oom_kills import oom_kills
from ociruntime.runtime.lifecycle.intel_rdt_groups import inspect
from tests.fuzz.mutation import change_lines
from tests.fuzz.target import Target, empty_directory, refusals

V1 = {
    "cpuacct.usage": "12\n",
    "cpuacct.usage_percpu": "1 2\n",
    "cpuacct.usage_all": "cpu user system\n0 1 2\n1 3 4\n",
    "cpuacct.stat": "user 1\nsystem 2\n",
    "cpu.stat": "nr_periods 1\nnr_throttled 0\nthrottled_time 5\n",
    "cpuset.cpus": "0-1\n",
    "memory.stat": "cache 1\nrss 2\n",
    "memory.usage_in_bytes": "4096\n",
    "memory.limit_in_bytes": "9223372036854771712\n",
    "memory.use_hierarchy": "1\n",
    "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
    "blkio.throttle.io_service_bytes_recursive": "8:0 Read 1\n8:0 Write 2\nTotal 3\n",
    "blkio.time_recursive": "8:0 4\n",
    "hugetlb.2MB.usage_in_bytes": "0\n",
    "freezer.state": "FROZEN\n",
    "cgroup.procs": "1\n2\n",
}
V2 = {
    "cpu.stat": "usage_usec 1\nuser_usec 2\nsystem_usec 3\nnr_periods 4\n",
    "cpu.pressure": "some avg10=0.00 avg60=1.50 avg300=0.00 total=7\nfull avg10=0.00 total=1\n",
    "memory.current": "4096\n",
    "memory.max": "max\n",
    "memory.stat": "anon 1\nfile 2\n",
    "memory.swap.current": "0\n",
    "memory.swap.max": "max\n",
    "memory.events": "low 0\noom_kill 2\n",
    "io.stat": "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0\n",
    "hugetlb.2MB.current": "0\n",
    "hugetlb.2MB.events": "max 1\n",
    "pids.current": "3\n",
    "pids.max": "max\n",
    "cgroup.events": "populated 1\nfrozen 0\n",
    "cgroup.controllers": "cpuset cpu io memory\n",
    "rdma.current": "mlx4_0 hca_handle=2 hca_object=2000\n",
}
OTHERS = {
    "self": "3:cpu,cpuacct:/a\n2:name=systemd:/b\n0::/c\n",
    "mountinfo": "41 25 0:26 / /sys/fs/cgroup/c rw - cgroup c rw,cpu,cpuacct\n"
    "25 1 0:23 / /sys/fs/cgroup/u rw - cgroup2 c rw\n",
    "schemata": "L3:0=ff\nMB:0=100\n",
}
_NAMES = {*V1, *V2, *OTHERS}
_LAYOUT = Layout(
    "hybrid",
    (
        Hierarchy(("cpu", "cpuacct"), "", "/sys/fs/cgroup/c", 1),
        Hierarchy((), "systemd", "/sys/fs/cgroup/systemd", 1),
        Hierarchy((), "", "/sys/fs/cgroup/u", 2),
    ),
)


def _entries(data: bytes) -> dict[str, bytes]:
    found = {}
    for entry in data.split(b"\0"):
        name, _, content = entry.partition(b" ")
        found[name.decode("ascii", "replace")] = content
    return {name: content for name, content in found.items() if name in _NAMES}


def _statistics(directory: str) -> None:
    for module in (statistics_v1, statistics_v2):
        for name in ("cpu", "cpuacct", "cpuset", "memory", "blkio", "hugetlb", "pids", "rdma"):
            function = getattr(module, name, None)
            if function is not None:
                dump(function(directory))
    for version in (1, 2):
        oom_kills(directory, version)
        for ask in (frozen, event):
            try:
                ask(directory, version if ask is frozen else "populated")  # type: ignore[arg-type]
            except OSError:
                pass  # the file is missing


def _memberships(self: str, mountinfo: str) -> None:
    existing = parse_existing(self)
    assert len(existing) <= self.count("\n") + 1, "a name has made another line"
    layout = assemble(cgroup_mounts(mountinfo), existing, ("cpu",))
    mounted = {mount.target for mount in parse_mountinfo(mountinfo)}
    assert {each.mountpoint for each in layout.hierarchies} <= mounted
    visible_directories(_LAYOUT, self)


def run(data: bytes) -> None:
    entries = _entries(data)
    directory = empty_directory("cgroup")
    for name, content in entries.items():
        (directory / name).write_bytes(content)
    place = str(directory)
    texts = {name: entries.get(name, b"").decode("utf-8", "surrogateescape") for name in OTHERS}
    with refusals():
        _statistics(place)
        control_files.page_sizes(place, "current")
    with refusals():
        try:
            assert all(number > 0 for number in pids(place))
        except OSError:
            pass
    with refusals():
        _memberships(texts["self"], texts["mountinfo"])
    with refusals():
        inspect(place, place)
    _usage(place)


def _usage(place: str) -> None:
    """Read the files that `ocictl stats` reads."""
    with mock.patch.object(resource_usage, "_directories", return_value=[place]):
        dump(resource_usage.usage("uuid", "app"))


def _pack(files: dict[str, str]) -> bytes:
    return b"\0".join(f"{name} {content}".encode() for name, content in files.items())


def seeds() -> Iterator[bytes]:
    for files in (V1, V2, OTHERS):
        yield _pack(files)
        for name, content in files.items():
            yield _pack({name: content})


def mutate(data: bytes, rng: random.Random) -> bytes:
    return change_lines(data, rng, rng.choice((b"\0", b"\n", b" ", b":", b"=")))


TARGET = Target(
    run,
    (
        "runtime/cgroups/statistics_v1.py",
        "runtime/cgroups/statistics_v2.py",
        "runtime/cgroups/control_files.py",
        "runtime/cgroups/hierarchies.py",
        "runtime/cgroups/freezer.py",
        "runtime/cgroups/oom_kills.py",
        "manager/containers/resource_usage.py",
    ),
    seeds,
    mutate,
    ("max", "\0cpu.stat ", "\0self ", "oom_kill ", "8:0 ", "name=", "0::/"),
)
