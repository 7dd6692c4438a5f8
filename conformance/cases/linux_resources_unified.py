"""config-linux.md: unified."""

from __future__ import annotations

from typing import Any

from conformance import cgroups
from conformance.bundle import Bundle
from conformance.case import case, table
from conformance.container import Container
from conformance.context import Context


def with_keys(c: Context, **keys: str) -> Bundle:
    """Return a bundle with ``keys`` as ``unified``.

    Underscores in the names stand for dots.
    """
    c.need_root("needs control groups to write to")
    bundle = c.bundle()
    bundle.resources["unified"] = {name.replace("_", "."): text for name, text in keys.items()}
    return bundle


def written(c: Context, box: Container, name: str) -> str:
    """Return the content of a file in the container's v2 cgroup."""
    path = box.cgroups()[""] / name
    c.expect(path.exists(), f"the cgroup has no {name}")
    return path.read_text().strip()


@table(
    ("pids", "pids.max", "20"),
    ("memory", "memory.high", "67108864"),
    ("cpu", "cpu.weight", "50"),
    ids="LNX-UNI-01",
)
def controller_enabled(c: Context, controller: str, name: str, value: str) -> None:
    """A single {0} key is enough to enable the {0} controller for the cgroup."""
    c.need_v2(controller)
    bundle = with_keys(c)
    bundle.resources["unified"] = {name: value}
    parent = c.make_cgroups("parent")
    if not c.runtime.systemd:
        bundle.linux["cgroupsPath"] = f"{parent}/box"
    c.equal(written(c, c.create(bundle), name), value, name)


@table(("memory.oom.group", "1"), ("cgroup.max.depth", "5"), ids="LNX-UNI-02")
def other_keys(c: Context, name: str, value: str) -> None:
    """{0}, which has no equivalent v1 setting, is written."""
    c.need_v2(*({"memory"} if name.startswith("memory") else set()))
    if c.host.cgroup_mode != "v2":
        c.skip("needs control groups v2 alone")
    bundle = with_keys(c)
    bundle.resources["unified"] = {name: value}
    c.equal(written(c, c.create(bundle), name), value, name)


@table(("nosuch.max",), ("memory.max",), ("pids.max",), ("cpuset.cpus",), ids="LNX-UNI-03")
def missing_controller(c: Context, name: str) -> None:
    """{0} is rejected if no v2 controller provides it."""
    bundle = with_keys(c)
    bundle.resources["unified"] = {name: "0" if name == "cpuset.cpus" else "67108864"}
    if cgroups.version_of(name.split(".", maxsplit=1)[0]) == 2:
        c.skip("the host has that controller")
    c.refused(bundle, f"a key of unified, {name}, without its controller")


@table(("a/b",), ("../cgroup.max.depth",), ("/cgroup.max.depth",), ("",), (".",), ids="LNX-UNI-04")
def no_file_name(c: Context, name: str) -> None:
    """The key {0!r} is rejected because it is not a file name."""
    sound, bad = with_keys(c), with_keys(c)
    sound.resources["unified"] = {"cgroup.max.depth": "5"}
    bad.resources["unified"] = {name: "5"}
    c.refused_beside(sound, bad, f"the key {name!r} of unified")


@case("LNX-UNI-04")
def missing_file(c: Context) -> None:
    """A key that does not name a file of the cgroup is rejected."""
    sound, bad = with_keys(c), with_keys(c)
    sound.resources["unified"] = {"cgroup.max.depth": "5"}
    bad.resources["unified"] = {"cgroup.nosuch": "5"}
    c.refused_beside(sound, bad, "the key cgroup.nosuch of unified")


@case("LNX-UNI-04")
def several_lines(c: Context) -> None:
    """A multi-line value is written line by line."""
    c.need_v2("io")
    point = next(one.point for one in cgroups.hierarchies() if one.version == 2)
    lines = (point / "io.stat").read_text().splitlines() if (point / "io.stat").exists() else []
    device = lines[0].split()[0] if lines else None
    if device is None:
        c.skip("no block device has been used")
    bundle = with_keys(c)
    bundle.resources["unified"] = {"io.max": f"{device} rbps=1048576\n{device} wbps=2097152"}
    text = written(c, c.create(bundle), "io.max")
    c.expect("rbps=1048576" in text and "wbps=2097152" in text, f"io.max: {text!r}")


@table(
    ("swappiness", {"memory": {"swappiness": 60}}),
    ("kernel", {"memory": {"kernel": 1 << 26}}),
    ("kernelTCP", {"memory": {"kernelTCP": 1 << 26}}),
    ("disableOOMKiller", {"memory": {"disableOOMKiller": True}}),
    ("useHierarchy", {"memory": {"useHierarchy": False}}),
    ("realtimeRuntime", {"cpu": {"realtimeRuntime": 1000, "realtimePeriod": 500000}}),
    ("leafWeight", {"blockIO": {"leafWeight": 200}}),
    ("classID", {"network": {"classID": 0x100001}}),
    ("priorities", {"network": {"priorities": [{"name": "lo", "priority": 3}]}}),
    ids="LNX-UNI-05",
)
def v1_setting(c: Context, name: str, resources: Any) -> None:
    """The v1 setting {0} is rejected on cgroup v2."""
    c.need_root("needs control groups to write to")
    if c.host.cgroup_mode != "v2":
        c.skip("needs control groups v2 alone")
    bundle = c.bundle()
    bundle.resources.update(resources)
    c.refused(bundle, f"{name} on v2")
