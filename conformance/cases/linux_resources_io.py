"""config-linux.md: cgroup settings for block I/O, huge pages, network, pids and RDMA."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conformance import cgroups, disks
from conformance.bundle import Bundle
from conformance.case import case, table
from conformance.container import Container
from conformance.context import Context

THROTTLES = {
    "throttleReadBpsDevice": ("blkio.throttle.read_bps_device", "rbps"),
    "throttleWriteBpsDevice": ("blkio.throttle.write_bps_device", "wbps"),
    "throttleReadIOPSDevice": ("blkio.throttle.read_iops_device", "riops"),
    "throttleWriteIOPSDevice": ("blkio.throttle.write_iops_device", "wiops"),
}


def block_device(c: Context) -> dict[str, int]:
    """Return the major and minor numbers of a whole block device.

    Skip if the host has none.
    """
    files = sorted(Path("/sys/block").glob("*/dev"))
    if not files:
        c.skip("the host has no block device")
    major, minor = files[0].read_text().split(":")
    return {"major": int(major), "minor": int(minor)}


def weighing_disk(c: Context) -> dict[str, int]:
    """Return a device for weightDevice; skip if the kernel has no weights for devices."""
    c.need_root("needs control groups to write to")
    if cgroups.version_of("blkio") == 1:
        files = ("blkio.weight_device", "blkio.bfq.weight_device")
        if not any(cgroups.has_file("blkio", file, c.token) for file in files):
            c.skip("the kernel has no weights of devices")
    return disks.make(c, "bfq")


def with_member(c: Context, name: str, value: Any) -> Bundle:
    """Return a bundle with one member of ``resources``."""
    c.need_root("needs control groups to write to")
    bundle = c.bundle()
    bundle.resources[name] = value
    return bundle


def without(entry: dict[str, Any], key: str) -> dict[str, Any]:
    """Return ``entry`` without the member ``key``."""
    return {name: value for name, value in entry.items() if name != key}


# --- block I/O ---


@table(
    ("weight", ("blkio.weight", "blkio.bfq.weight"), ("io.bfq.weight", "io.weight")),
    ("leafWeight", ("blkio.leaf_weight",), ()),
    ids="LNX-BLKIO-01",
)
def weight(c: Context, name: str, v1: tuple[str, ...], v2: tuple[str, ...]) -> None:
    """{0} is set, or rejected if the kernel does not support it."""
    version = 1 if cgroups.version_of("blkio") == 1 else 2
    c.need_controller("blkio" if version == 1 else "io")
    bundle = with_member(c, "blockIO", {name: 200})
    box, result = c.attempt_create(bundle)
    if version == 1 and not any(cgroups.has_file("blkio", file, c.token) for file in v1):
        box.deleted = not result.ok
        c.expect(not result.ok, f"accepted, and the kernel knows none of {', '.join(v1)}")
        return
    if version == 2 and not v2:
        box.deleted = not result.ok
        c.expect(not result.ok, f"accepted, and v2 has nothing like {name}")
        return
    if not result.ok and version == 2:
        box.deleted = True
        throttled = with_member(
            c, "blockIO", {"throttleReadBpsDevice": [block_device(c) | {"rate": 1 << 20}]}
        )
        directory = c.create(throttled).cgroups()[""]
        there = [file for file in v2 if (directory / file).exists()]
        c.equal(there, [], f"refused ({result.complaint}) in spite of files")
        return
    c.expect(result.ok, f"create failed: {result.complaint}")
    directory = box.cgroups()["blkio" if version == 1 else ""]
    files = v1 if version == 1 else v2
    found = [(directory / file).read_text() for file in files if (directory / file).exists()]
    # io.weight: 200 of 10..1000 on the scale 1..10000, as runc and crun agreed
    values = {text.split()[-1] for text in found}
    c.expect(values & {"200", str(1 + (200 - 10) * 9999 // 990)}, f"weights are {values}")


@table((-1,), (70000,), ("100",), ids="LNX-BLKIO-01")
def bad_weight(c: Context, value: object) -> None:
    """The weight {0!r} is rejected because it is not a uint16."""
    sound = with_member(c, "blockIO", {"weight": 500})
    c.refused_beside(sound, with_member(c, "blockIO", {"weight": value}), f"weight {value}")


@table(
    *((f"{name} without {key}", name, key) for name in THROTTLES for key in ("major", "minor")),
    ids="LNX-BLKIO-02",
)
def throttle_without_device(c: Context, _name: str, member: str, key: str) -> None:
    """An entry of {0} is rejected."""
    entry = block_device(c) | {"rate": 1 << 20}
    bad = with_member(c, "blockIO", {member: [without(entry, key)]})
    c.refused_beside(with_member(c, "blockIO", {member: [entry]}), bad, f"no {key}")


@table(("major",), ("minor",), ids="LNX-BLKIO-02")
def weight_without_device(c: Context, key: str) -> None:
    """An entry of weightDevice without {0} is rejected."""
    entry = weighing_disk(c) | {"weight": 500}
    bad = with_member(c, "blockIO", {"weightDevice": [without(entry, key)]})
    c.refused_beside(with_member(c, "blockIO", {"weightDevice": [entry]}), bad, f"no {key}")


@case("LNX-BLKIO-03")
def weight_device_without_weight(c: Context) -> None:
    """An entry of weightDevice with neither weight nor leafWeight is rejected."""
    device = weighing_disk(c)
    sound = with_member(c, "blockIO", {"weightDevice": [device | {"weight": 500}]})
    c.refused_beside(sound, with_member(c, "blockIO", {"weightDevice": [device]}), "no weight")


@case("LNX-BLKIO-03")
def weight_of_device(c: Context) -> None:
    """The weight in an entry of weightDevice is set for the entry's device."""
    c.need_v1("blkio")
    device = weighing_disk(c)
    box = c.create(with_member(c, "blockIO", {"weightDevice": [device | {"weight": 500}]}))
    found = [path.read_text() for path in box.cgroups()["blkio"].glob("blkio.*weight_device")]
    line = f"{device['major']}:{device['minor']} 500"
    c.expect(any(line in text.splitlines() for text in found), f"weights of devices: {found}")


@table(*((name, *files) for name, files in THROTTLES.items()), ids="LNX-BLKIO-04")
def throttle(c: Context, name: str, v1: str, v2: str) -> None:
    """The rate in an entry of {0} is set for the entry's device."""
    device = block_device(c)
    c.need_controller("blkio" if cgroups.version_of("blkio") == 1 else "io")
    box = c.create(with_member(c, "blockIO", {name: [device | {"rate": 1 << 20}]}))
    text = box.cgroup_file("blkio", v1, "io.max")
    key = f"{device['major']}:{device['minor']}"
    lines = {line.split()[0]: line.split()[1:] for line in text.splitlines()}
    wanted = str(1 << 20) if cgroups.version_of("blkio") == 1 else f"{v2}={1 << 20}"
    c.expect(wanted in lines.get(key, []), f"limits of {key}: {lines.get(key)}")


@table(*((name,) for name in THROTTLES), ids="LNX-BLKIO-04")
def throttle_without_rate(c: Context, name: str) -> None:
    """An entry of {0} without a rate is rejected."""
    device = block_device(c)
    bad = with_member(c, "blockIO", {name: [device]})
    c.refused_beside(with_member(c, "blockIO", {name: [device | {"rate": 1 << 20}]}), bad, "rate")


# --- huge pages ---


def page_size(c: Context) -> str:
    """Return the smallest huge page size of the kernel.

    Skip if it has none.
    """
    if not c.host.page_sizes:
        c.skip("the kernel has no huge pages")
    return min(c.host.page_sizes, key=lambda size: ("KMG".index(size[-2]), int(size[:-2])))


@table(("pageSize",), ("limit",), ids="LNX-HUGE-01")
def huge_page_entry(c: Context, key: str) -> None:
    """An entry of hugepageLimits without {0} is rejected."""
    entry = {"pageSize": page_size(c), "limit": 4 << 20}
    bad = with_member(c, "hugepageLimits", [without(entry, key)])
    c.refused_beside(with_member(c, "hugepageLimits", [entry]), bad, f"no {key}")


@case("LNX-HUGE-02")
def huge_page_limit(c: Context) -> None:
    """The huge page limit applies to reservations if the kernel supports that."""
    c.need_controller("hugetlb")
    size = page_size(c)
    box = c.create(with_member(c, "hugepageLimits", [{"pageSize": size, "limit": 4 << 20}]))
    kind = ".rsvd" if c.host.kernel >= (5, 7) else ""
    v1, v2 = f"hugetlb.{size}{kind}.limit_in_bytes", f"hugetlb.{size}{kind}.max"
    if "G" in size:
        c.skip("the kernel has no huge pages of less than 1 GB")
    c.equal(box.cgroup_file("hugetlb", v1, v2), str(4 << 20), "limit of huge pages")


@table(("3MB",), ("2mb",), ("MB",), ("../2MB",), ids="LNX-HUGE-03")
def bad_page_size(c: Context, size: str) -> None:
    """The page size {0!r} is rejected because the kernel does not support it."""
    sound = with_member(c, "hugepageLimits", [{"pageSize": page_size(c), "limit": 4 << 20}])
    bad = with_member(c, "hugepageLimits", [{"pageSize": size, "limit": 4 << 20}])
    c.refused_beside(sound, bad, f"page size {size!r}")


# --- network ---


@table(("name",), ("priority",), ids="LNX-NETCG-01")
def priority_entry(c: Context, key: str) -> None:
    """An entry of priorities without {0} is rejected."""
    entry = {"name": "lo", "priority": 3}
    bad = with_member(c, "network", {"priorities": [without(entry, key)]})
    c.refused_beside(with_member(c, "network", {"priorities": [entry]}), bad, f"no {key}")


@case("LNX-NETCG-01")
def priority(c: Context) -> None:
    """The priority of a network device is set."""
    c.need_v1("net_prio")
    box = c.create(with_member(c, "network", {"priorities": [{"name": "lo", "priority": 3}]}))
    text = box.cgroup_file("net_prio", "net_prio.ifpriomap", "")
    c.expect("lo 3" in text.splitlines(), f"net_prio.ifpriomap: {text!r}")


@case("LNX-NETCG-01")
def class_id(c: Context) -> None:
    """The network classID is set."""
    c.need_v1("net_cls")
    box = c.create(with_member(c, "network", {"classID": 0x100001}))
    found = box.cgroup_file("net_cls", "net_cls.classid", "")
    c.equal(found, str(0x100001), "net_cls.classid")


# --- pids ---


def pids(c: Context, value: Any, *actions: str) -> Container:
    """Create a container with ``value`` as ``pids``."""
    c.need_controller("pids")
    bundle = c.bundle(*actions)
    bundle.resources["pids"] = value
    return c.create(bundle)


@table((7, "7"), (-1, "max"), ids="LNX-PIDS-01")
def pids_limit(c: Context, limit: int, wanted: str) -> None:
    """A pids limit of {0} is set."""
    box = pids(c, {"limit": limit})
    c.equal(box.cgroup_file("pids", "pids.max", "pids.max"), wanted, "pids.max")


@case("LNX-PIDS-01")
def no_processes(c: Context) -> None:
    """A pids limit of 0 does not mean unlimited; setting it as 1 has the same effect."""
    found = pids(c, {"limit": 0}).cgroup_file("pids", "pids.max", "pids.max")
    c.expect(found in ("0", "1"), f"pids.max is {found}")


@case("LNX-PIDS-01")
def no_pids_limit(c: Context) -> None:
    """A pids object without a limit sets no limit."""
    if c.runtime.systemd:
        c.skip("systemd gives each unit a limit of its own")
    found = pids(c, {}).cgroup_file("pids", "pids.max", "pids.max")
    c.equal(found, "max", "pids.max")


@case("LNX-PIDS-01")
def pids_limit_holds(c: Context) -> None:
    """The program cannot have more processes than the pids limit."""
    box = pids(c, {"limit": 2}, "background", "echo one", "background", "echo two", "exit 0")
    box.start()
    box.wait()
    c.equal((box.exit_status, box.out), (120, "one\n"), "exit status and output")


# --- RDMA ---


@case("LNX-RDMA-01")
def empty_rdma_entry(c: Context) -> None:
    """An entry of rdma without any limit is rejected."""
    sound = with_member(c, "rdma", {"mlx5_0": {"hcaHandles": 3}})
    c.refused_beside(sound, with_member(c, "rdma", {"mlx5_0": {}}), "an empty rdma entry")


@case("LNX-RDMA-01")
def rdma_limit(c: Context) -> None:
    """The limits of an RDMA device are set."""
    c.need_controller("rdma")
    devices = sorted(Path("/sys/class/infiniband").glob("*"))
    if not devices:
        c.skip("the host has no RDMA device")
    name = devices[0].name
    box = c.create(with_member(c, "rdma", {name: {"hcaHandles": 3, "hcaObjects": 100}}))
    lines = box.cgroup_file("rdma", "rdma.max", "rdma.max").splitlines()
    c.expect(f"{name} hca_handle=3 hca_object=100" in lines, f"rdma.max: {lines}")
