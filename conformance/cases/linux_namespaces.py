"""config-linux.md: default filesystems, namespaces, user namespace mappings, time offsets."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from conformance import isolation
from conformance.bundle import Bundle
from conformance.case import case, table
from conformance.context import Context
from conformance.mounts import at
from conformance.template import ABSENT

# Type in the config -> name in /proc/PID/ns.
FILES = {
    "pid": "pid",
    "network": "net",
    "mount": "mnt",
    "ipc": "ipc",
    "uts": "uts",
    "user": "user",
    "cgroup": "cgroup",
    "time": "time",
}
KINDS = tuple((kind,) for kind in FILES)
DAY = 86400


def own(kind: str) -> int:
    """Return the inode number of this process's namespace, which is also the runtime's."""
    return os.stat(f"/proc/self/ns/{FILES[kind]}").st_ino


def with_new(c: Context, kind: str) -> Bundle:
    """Return a bundle with a new namespace of type ``kind``."""
    if kind == "time":
        c.need_kernel(5, 6)
    if kind == "user":
        return c.bundle().user_namespace() if c.host.root else c.bundle()
    return c.bundle().namespace(kind)


@table(
    ("/proc", "proc"),
    ("/sys", "sysfs"),
    ("/dev/pts", "devpts"),
    ("/dev/shm", "tmpfs"),
    ids="LNX-FS-01",
)
def default_filesystem(c: Context, point: str, fstype: str) -> None:
    """{0} is a {1} filesystem if the config has the usual mount."""
    bundle = c.bundle().mount("/sys", "sysfs", "sysfs", "nosuid", "noexec", "nodev", "ro")
    bundle.mount("/dev/shm", "tmpfs", "shm", "nosuid", "noexec", "nodev", "mode=1777", "size=64k")
    mount = at(point, c.create(bundle).mountinfo())
    c.equal(mount and mount.fstype, fstype, f"file system on {point}")


@case("LNX-FS-01")
def default_filesystems_of_spec(c: Context) -> None:
    """The config that the runtime's spec command generates has all the usual mounts."""
    bundle = c.bundle()
    result = c.call("spec", cwd=bundle.path)
    if not result.ok:
        c.skip("the runtime has no spec command")
    config = json.loads((bundle.path / "config.json").read_text())
    mounts = {one["destination"].rstrip("/"): one.get("type") for one in config["mounts"]}
    usual = {"/proc": "proc", "/sys": "sysfs", "/dev/pts": "devpts", "/dev/shm": "tmpfs"}
    for point, fstype in usual.items():
        c.equal(mounts.get(point), fstype, f"suggested type of {point}")


@table(("empty", {}), ("path_only", {"path": "/proc/self/ns/uts"}), ids="LNX-NS-01")
def namespace_without_type(c: Context, _name: str, entry: dict[str, str]) -> None:
    """A namespace without a type is rejected ({0})."""
    bundle = c.bundle()
    bundle.linux["namespaces"].append(entry)
    c.refused(bundle, f"namespace {entry}")


@table(*KINDS, ids=("LNX-NS-02", "LNX-NS-06"))
def new_namespace(c: Context, kind: str) -> None:
    """A new {0} namespace is neither the runtime's nor another container's."""
    boxes = [c.started(with_new(c, kind)) for _ in range(2)]
    inodes = [box.namespace(FILES[kind]) for box in boxes]
    c.expect(own(kind) not in inodes, f"the container is in the runtime's {kind} namespace")
    c.expect(inodes[0] != inodes[1], f"two containers share a new {kind} namespace")


@table(*KINDS, ids=("LNX-NS-02", "LNX-NS-06"))
def new_namespace_of_the_program(c: Context, kind: str) -> None:
    """The program itself is in the new {0} namespace."""
    facts = c.probe(with_new(c, kind))
    c.expect(facts["namespaces"][FILES[kind]] != own(kind), f"it is in the runtime's {kind} one")


@table(("network",), ("ipc",), ("uts",), ("pid",), ids="LNX-NS-03")
def relative_namespace_path(c: Context, kind: str) -> None:
    """A relative path to a {0} namespace is rejected, even if it resolves to one."""
    c.need_root()
    target = f"proc/{c.create().pid}/ns/{FILES[kind]}"
    path = "../" * 40 + target
    c.refused(c.bundle().namespace(kind, path), f"{kind} namespace by relative path")


@table(("network",), ("ipc",), ("uts",), ("pid",), ("cgroup",), ("time",), ids="LNX-NS-04")
def joined_namespace(c: Context, kind: str) -> None:
    """The program joins the {0} namespace that the path names."""
    c.need_root()
    other = c.create(with_new(c, kind))
    name = FILES[kind]
    facts = c.probe(c.bundle().namespace(kind, other.proc(f"ns/{name}")))
    c.equal(facts["namespaces"].get(name), other.namespace(name), f"{kind} namespace")
    c.expect(other.namespace(name) != own(kind), "the other container has no namespace of its own")


@case("LNX-NS-04")
def joined_user_namespace(c: Context) -> None:
    """The program joins the user namespace that the path names, with its ID mappings."""
    c.need_root()
    other = c.create(c.bundle().user_namespace())
    bundle = c.bundle().user_namespace().namespace("user", other.proc("ns/user"))
    del bundle.linux["uidMappings"], bundle.linux["gidMappings"]
    facts = c.probe(bundle, "read=/proc/self/uid_map")
    c.equal(facts["namespaces"]["user"], other.namespace("user"), "user namespace")
    c.equal(facts["uid"], 0, "uid in the joined namespace")


@case("LNX-NS-04")
def joined_mount_namespace(c: Context) -> None:
    """The program joins the mount namespace that the path names."""
    c.need_root()
    file = c.directory / "mount-namespace"
    file.touch()
    c.tool("unshare", f"--mount={file}", "true")
    try:
        wanted = file.stat().st_ino
        facts = c.probe(c.bundle().namespace("mount", file))
        c.equal(facts["namespaces"]["mnt"], wanted, "mount namespace")
    finally:
        isolation.unmount(str(file))


@table(
    ("other_kind", "/proc/self/ns/ipc"),
    ("regular_file", "/etc/passwd"),
    ("missing", "/proc/self/ns/none"),
    ("directory", "/proc/self/ns"),
    ids="LNX-NS-05",
)
def no_such_namespace(c: Context, _name: str, path: str) -> None:
    """A path that is not a network namespace is rejected ({0})."""
    c.refused(c.bundle().namespace("network", path), f"network namespace {path}")


@table(("pid", "uts"), ("ipc", "net"), ("uts", "ipc"), ("cgroup", "uts"), ids="LNX-NS-05")
def other_kind_of_namespace(c: Context, kind: str, file: str) -> None:
    """A {0} namespace with the path of a {1} namespace is rejected."""
    bundle = c.bundle().namespace(kind, f"/proc/self/ns/{file}")
    c.refused(bundle, f"a {file} namespace as {kind}")


@table(("network",), ("ipc",), ("uts",), ("pid",), ("cgroup",), ("time",), ids="LNX-NS-07")
def inherited_namespace(c: Context, kind: str) -> None:
    """The program stays in the runtime's {0} namespace if the config lists none."""
    c.need_root()
    facts = c.probe(c.bundle().without_namespace(kind))
    c.equal(facts["namespaces"].get(FILES[kind]), own(kind), f"{kind} namespace")


@case("LNX-NS-07")
def inherited_mount_namespace(c: Context) -> None:
    """A container without mounts and mount namespace stays in the runtime's mount namespace."""
    c.need_root()
    box = c.started(c.bundle(mounts=ABSENT).without_namespace("mount"))
    c.equal(box.namespace("mnt"), own("mount"), "mount namespace")
    c.equal(str(box.bundle.rootfs), os.readlink(box.proc("root")), "root")


@case("LNX-NS-07")
def inherited_user_namespace(c: Context) -> None:
    """The program stays in the runtime's user namespace if the config lists none."""
    c.need_root()
    facts = c.probe(c.bundle())
    c.equal(facts["namespaces"]["user"], own("user"), "user namespace")


@table(("pid",), ("network",), ("mount",), ("uts",), ids="LNX-NS-08")
def namespace_twice(c: Context, kind: str) -> None:
    """A config with two new {0} namespaces is rejected."""
    bundle = c.bundle()
    bundle.linux["namespaces"].append({"type": kind})
    c.refused(bundle, f"two {kind} namespaces")


@case("LNX-NS-08")
def namespace_new_and_joined(c: Context) -> None:
    """A namespace type that is listed both with and without a path is rejected."""
    bundle = c.bundle()
    bundle.linux["namespaces"].append({"type": "uts", "path": "/proc/self/ns/uts"})
    c.refused(bundle, "two uts namespaces, one with a path")


@table(("bogus",), ("net",), ("mnt",), ("PID",), ids="LNX-NS-09")
def unknown_namespace(c: Context, kind: str) -> None:
    """A namespace of type {0} is rejected."""
    bundle = c.bundle()
    bundle.linux["namespaces"].append({"type": kind})
    c.refused(bundle, f"a namespace of type {kind}")


@table(
    *(
        (f"{ids}-{key}", ids, key)
        for ids in ("uidMappings", "gidMappings")
        for key in ("containerID", "hostID", "size")
    ),
    ids="LNX-IDMAP-01",
)
def mapping_without(c: Context, _name: str, ids: str, key: str) -> None:
    """An entry of {1} without {2} is rejected."""
    c.need_root()
    bundle = c.bundle().user_namespace()
    del bundle.linux[ids][0][key]
    c.refused(bundle, f"{ids} without {key}")


RANGES = ((0, 100000, 1000), (1000, 300000, 1), (5000, 200000, 10))


def mapped(c: Context) -> Bundle:
    """Return a bundle with a user namespace that maps several ranges of IDs."""
    c.need_root()
    bundle = c.bundle().user_namespace()
    for kind in ("uidMappings", "gidMappings"):
        bundle.linux[kind] = [
            {"containerID": inside, "hostID": outside, "size": size}
            for inside, outside, size in RANGES
        ]
    return bundle


@table(("uid",), ("gid",), ids="LNX-IDMAP-02")
def several_ranges(c: Context, kind: str) -> None:
    """All {0} ranges are mapped in the user namespace."""
    lines = c.create(mapped(c)).proc(f"{kind}_map").read_text().splitlines()
    found = sorted(tuple(int(word) for word in line.split()) for line in lines)
    c.equal(found, sorted(RANGES), f"{kind}_map")


@case("LNX-IDMAP-02")
def different_mappings(c: Context) -> None:
    """UIDs and GIDs are mapped independently of each other."""
    c.need_root()
    bundle = c.bundle().user_namespace()
    bundle.linux["gidMappings"][0]["size"] = 2000
    box = c.create(bundle)
    c.equal(box.proc("uid_map").read_text().split(), ["0", "100000", "65536"], "uid_map")
    c.equal(box.proc("gid_map").read_text().split(), ["0", "100000", "2000"], "gid_map")


@case("LNX-IDMAP-02")
def mapped_process(c: Context) -> None:
    """A process that runs as a mapped user and group has the mapped IDs on the host."""
    bundle = mapped(c)
    bundle.process["user"] = {"uid": 5003, "gid": 1000}
    status = c.started(bundle).proc("status").read_text()
    ids = {line.split()[0]: line.split()[1] for line in status.splitlines() if "id:" in line}
    c.equal(ids["Uid:"], "200003", "uid on the host")
    c.equal(ids["Gid:"], "300000", "gid on the host")


def owners(rootfs: Path) -> dict[str, tuple[int, int]]:
    """Return the uid and gid of each file and directory below ``rootfs``, by path."""
    found = {}
    for place, directories, files in os.walk(rootfs):
        for name in [*directories, *files]:
            info = os.lstat(os.path.join(place, name))
            found[os.path.join(place, name)] = (info.st_uid, info.st_gid)
    return found


@case("LNX-IDMAP-03")
def owners_stay(c: Context) -> None:
    """Files in the root filesystem keep their owners regardless of the ID mappings."""
    c.need_root()
    bundle = c.bundle("sleep").user_namespace()
    os.chown(bundle.rootfs / "etc/passwd", 0, 0)
    os.chown(bundle.rootfs / "etc/group", 7, 8)
    before = owners(bundle.rootfs)
    c.started(bundle)
    after = owners(bundle.rootfs)
    changed = [path for path, owner in before.items() if after.get(path) != owner]
    c.equal(changed, [], "files with another owner")


@table(
    ("monotonic", "monotonic_ns", {"secs": DAY, "nanosecs": 500}),
    ("boottime", "boottime_ns", {"secs": 7 * DAY}),
    ("monotonic-back", "monotonic_ns", {"secs": -5}),
    ("boottime-back", "boottime_ns", {"secs": -5, "nanosecs": 500000000}),
    ids="LNX-TIME-01",
)
def offset(c: Context, name: str, fact: str, value: dict[str, int]) -> None:
    """The program's clock is shifted by the offset ({0})."""
    c.need_root()
    c.need_kernel(5, 6)
    kind, clock = time.CLOCK_MONOTONIC, name.partition("-")[0]
    if clock == "boottime":
        kind = time.CLOCK_BOOTTIME
    wanted = value["secs"] * 10**9 + value.get("nanosecs", 0)
    bundle = c.bundle().namespace("time")
    bundle.linux["timeOffsets"] = {clock: value}
    earliest = time.clock_gettime_ns(kind)
    inside = c.probe(bundle)[fact]
    latest = time.clock_gettime_ns(kind)
    seen = f"between {(inside - latest) / 1e9:.3f} and {(inside - earliest) / 1e9:.3f} s"
    c.expect(earliest <= inside - wanted <= latest, f"{clock} differs by {seen}, not {value}")


@table(
    ("realtime", {"realtime": {"secs": 1}}),
    ("nanosecs", {"monotonic": {"secs": 1, "nanosecs": 1 << 32}}),
    ("negative", {"monotonic": {"secs": 1, "nanosecs": -1}}),
    ids="LNX-TIME-01",
)
def bad_offset(c: Context, _name: str, offsets: dict[str, Any]) -> None:
    """A time offset with an invalid clock or value is rejected ({0})."""
    c.need_root()
    c.need_kernel(5, 6)
    bundle = c.bundle().namespace("time")
    bundle.linux["timeOffsets"] = offsets
    c.refused(bundle, f"timeOffsets {offsets}")


@case("LNX-TIME-02")
def offset_without_namespace(c: Context) -> None:
    """A time offset without a time namespace is rejected."""
    bundle = c.bundle()
    bundle.linux["timeOffsets"] = {"monotonic": {"secs": DAY}}
    c.refused(bundle, "timeOffsets without a time namespace")


@case("LNX-TIME-02")
def offset_of_joined_namespace(c: Context) -> None:
    """A time offset for a joined time namespace is rejected."""
    c.need_root()
    c.need_kernel(5, 6)
    bundle = c.bundle().namespace("time", "/proc/self/ns/time")
    bundle.linux["timeOffsets"] = {"monotonic": {"secs": DAY}}
    c.refused(bundle, "timeOffsets for a namespace by path")
