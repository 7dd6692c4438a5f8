"""config-linux.md: CPU settings of cgroups."""

from __future__ import annotations

from typing import Any

from conformance import cgroups
from conformance.case import case, table
from conformance.container import Container
from conformance.context import Context


def limited(c: Context, **cpu: Any) -> Container:
    """Create a container with these members of ``cpu``."""
    bundle = c.bundle()
    bundle.resources["cpu"] = cpu
    return c.create(bundle)


@case("LNX-CPU-01")
def shares(c: Context) -> None:
    """CPU shares are set."""
    c.need_v1("cpu", "cpu.shares")
    c.equal(limited(c, shares=512).cgroup_file("cpu", "cpu.shares", ""), "512", "cpu.shares")


@case("LNX-CPU-01")
def weight_of_shares(c: Context) -> None:
    """On cgroup v2, more CPU shares mean a higher weight, over the whole range."""
    c.need_v2("cpu")
    weights = [
        int(limited(c, shares=value).cgroup_file("cpu", "", "cpu.weight"))
        for value in (2, 512, 4096, 262144)
    ]
    c.expect(weights == sorted(set(weights)), f"weights are not rising: {weights}")
    c.equal((weights[0], weights[-1]), (1, 10000), "weights at the ends of the range")


@table(
    ("quota", {"quota": 20000, "period": 50000}, "cpu.cfs_quota_us", "20000", "20000 50000"),
    ("period", {"quota": 20000, "period": 50000}, "cpu.cfs_period_us", "50000", "20000 50000"),
    ("quota alone", {"quota": 20000}, "cpu.cfs_quota_us", "20000", "20000 100000"),
    ("period alone", {"period": 50000}, "cpu.cfs_period_us", "50000", "max 50000"),
    ("no quota", {"quota": -1, "period": 50000}, "cpu.cfs_quota_us", "-1", "max 50000"),
    ids="LNX-CPU-01",
)
def bandwidth(c: Context, _name: str, cpu: Any, file: str, v1: str, v2: str) -> None:
    """CPU quota and period are set: {0}."""
    c.need_controller("cpu")
    if cgroups.version_of("cpu") == 1:
        c.need_v1("cpu", file)
    wanted = v1 if cgroups.version_of("cpu") == 1 else v2
    c.equal(limited(c, **cpu).cgroup_file("cpu", file, "cpu.max"), wanted, "bandwidth")


@case("LNX-CPU-01")
def quota_holds(c: Context) -> None:
    """A CPU quota of a whole period lets the program run to completion."""
    c.need_controller("cpu")
    bundle = c.bundle("exit 5")
    bundle.resources["cpu"] = {"quota": 100000, "period": 100000}
    c.equal(c.run(bundle).exit_status, 5, "exit status")


@table(("cpus", "cpuset.cpus"), ("mems", "cpuset.mems"), ids="LNX-CPU-01")
def processors(c: Context, name: str, file: str) -> None:
    """The cpuset's {0} are set."""
    c.need_controller("cpuset")
    c.equal(limited(c, **{name: "0"}).cgroup_file("cpuset", file, file), "0", file)


@case("LNX-CPU-01")
def processors_hold(c: Context) -> None:
    """The program runs only on the given CPUs."""
    c.need_controller("cpuset")
    bundle = c.bundle()
    bundle.resources["cpu"] = {"cpus": "0"}
    facts = c.probe(bundle, "read=/proc/self/status")
    lines = facts["read"]["/proc/self/status"].splitlines()
    found = next(line.split()[1] for line in lines if line.startswith("Cpus_allowed_list:"))
    if len(c.probe_on_host().json()["affinity"]) < 2:
        c.skip("the host has one processor")
    c.equal(found, "0", "processors of the program")


@table(("words", "first"), ("absent", "8191"), ids="LNX-CPU-01")
def impossible_processors(c: Context, _name: str, cpus: str) -> None:
    """Invalid or unavailable CPUs are rejected ({0})."""
    c.need_controller("cpuset")
    sound, bad = c.bundle(), c.bundle()
    sound.resources["cpu"] = {"cpus": "0"}
    bad.resources["cpu"] = {"cpus": cpus}
    c.refused_beside(sound, bad, f"cpus {cpus!r}")


@case("LNX-CPU-01")
def idle(c: Context) -> None:
    """The cgroup is set to idle."""
    c.need_controller("cpu")
    c.need_kernel(5, 15)
    c.equal(limited(c, idle=1).cgroup_file("cpu", "cpu.idle", "cpu.idle"), "1", "cpu.idle")


@table(
    ("realtimeRuntime", "cpu.rt_runtime_us", "1000"),
    ("realtimePeriod", "cpu.rt_period_us", "500000"),
    ids="LNX-CPU-01",
)
def real_time(c: Context, _name: str, file: str, value: str) -> None:
    """{0} is set."""
    c.need_v1("cpu", file)
    box = limited(c, realtimePeriod=500000, realtimeRuntime=1000)
    c.equal(box.cgroup_file("cpu", file, ""), value, file)


@case("LNX-CPU-01")
def burst(c: Context) -> None:
    """The CPU burst is set."""
    c.need_controller("cpu")
    c.need_kernel(5, 14)
    box = limited(c, quota=20000, burst=10000)
    c.equal(box.cgroup_file("cpu", "cpu.cfs_burst_us", "cpu.max.burst"), "10000", "burst")


@table(
    ("by one", 20000, 20001),
    ("by far", 10000, 1 << 40),
    ids=("LNX-CPU-02", "LNX-CPU-03"),
)
def burst_above_quota(c: Context, _name: str, quota: int, burst: int) -> None:
    """A CPU burst larger than the quota is rejected ({0})."""
    c.need_controller("cpu")
    c.need_kernel(5, 14)
    sound, bad = c.bundle(), c.bundle()
    sound.resources["cpu"] = {"quota": quota, "burst": quota}
    bad.resources["cpu"] = {"quota": quota, "burst": burst}
    c.refused_beside(sound, bad, f"burst {burst} above quota {quota}")


@table(("equal", 20000, 20000), ("no quota", -1, 20000), ids=("LNX-CPU-02", "LNX-CPU-03"))
def burst_within_quota(c: Context, _name: str, quota: int, burst: int) -> None:
    """A CPU burst that the quota permits is accepted ({0})."""
    c.need_controller("cpu")
    c.need_kernel(5, 14)
    limited(c, quota=quota, burst=burst)
