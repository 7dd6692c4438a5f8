"""config-linux.md: devices and default devices."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from typing import Any

from conformance.bundle import Bundle, Json
from conformance.case import case, table
from conformance.context import Context

DEFAULTS = (
    ("null", 1, 3),
    ("zero", 1, 5),
    ("full", 1, 7),
    ("random", 1, 8),
    ("urandom", 1, 9),
    ("tty", 5, 0),
)
NODE = {"path": "/opt/node", "type": "c", "major": 1, "minor": 3}
FUSE = (10, 229)


def device(path: str, kind: str, major: int, minor: int, **more: int) -> Json:
    """Return an entry of ``linux.devices``."""
    return {"path": path, "type": kind, "major": major, "minor": minor, **more}


def with_devices(c: Context, *devices: Json) -> Bundle:
    """Return a bundle with ``devices``; skip without root or CAP_MKNOD.

    Device nodes other than the default ones need both.
    """
    c.need_root("needs device nodes")
    c.need_capability(27, "CAP_MKNOD")
    bundle = c.bundle()
    bundle.linux["devices"] = list(devices)
    return bundle


def look(c: Context, bundle: Bundle, path: str, *asks: str) -> Json:
    """Return what lstat(2) reports for ``path`` inside the container.

    Fail the case if it does not exist.
    """
    found: Json = c.probe(bundle, f"stat={path}", *asks)["stat"][path]
    c.expect("error" not in found, f"no {path} inside: {found.get('error')}")
    return found


@table(("c", "c", 1, 5), ("u", "c", 1, 5), ("b", "b", 7, 0), ids=("LNX-DEV-01", "LNX-DEV-02"))
def listed(c: Context, kind: str, wanted: str, major: int, minor: int) -> None:
    """A device of type {0} is created with its major and minor numbers."""
    found = look(c, with_devices(c, device("/dev/one", kind, major, minor)), "/dev/one")
    c.equal((found["kind"], found["major"], found["minor"]), (wanted, major, minor), "/dev/one")


@case("LNX-DEV-01", "LNX-DEV-04")
def pipe(c: Context) -> None:
    """A device of type p is a FIFO and needs no major and minor numbers."""
    bundle = with_devices(c, {"path": "/dev/pipe", "type": "p", "fileMode": 0o600})
    c.equal(look(c, bundle, "/dev/pipe")["kind"], "p", "kind of /dev/pipe")


@case("LNX-DEV-01")
def listed_is_usable(c: Context) -> None:
    """A listed device can be opened."""
    bundle = with_devices(c, device("/dev/one", "c", 1, 5, fileMode=0o666))
    facts = c.probe(bundle, "open=b:/dev/one")
    c.equal(facts["open"]["b:/dev/one"], "ok", "opening /dev/one")


@case("LNX-DEV-01")
def listed_in_user_namespace(c: Context) -> None:
    """A listed device exists in a user namespace, where device nodes cannot be created."""
    bundle = with_devices(c, device("/dev/full", "c", 1, 7)).user_namespace()
    found = look(c, bundle, "/dev/full")
    c.equal((found["kind"], found["major"], found["minor"]), ("c", 1, 7), "/dev/full")


@table(("type",), ("path",), ids="LNX-DEV-02")
def device_without(c: Context, key: str) -> None:
    """A device without {0} is rejected."""
    c.refused(with_devices(c, {k: v for k, v in NODE.items() if k != key}), f"no {key}")


@table(("z",), ("char",), ("a",), ids="LNX-DEV-02")
def unknown_type(c: Context, kind: str) -> None:
    """A device of type {0} is rejected."""
    c.refused(with_devices(c, NODE | {"type": kind}), f"a device of type {kind}")


@table(
    ("c-major", "c", "major"),
    ("c-minor", "c", "minor"),
    ("b-major", "b", "major"),
    ("u-minor", "u", "minor"),
    ids="LNX-DEV-04",
)
def device_without_number(c: Context, _name: str, kind: str, key: str) -> None:
    """A device of type {1} without {2} is rejected."""
    entry = {k: v for k, v in NODE.items() if k != key} | {"type": kind}
    c.refused(with_devices(c, entry), f"type {kind} without {key}")


def _node(kind: int, major: int, minor: int) -> Callable[[str], None]:
    return lambda path: os.mknod(path, kind | 0o666, os.makedev(major, minor))


def _file(path: str) -> None:
    with open(path, "w", encoding="ascii"):
        pass


@table(
    ("file", _file),
    ("directory", os.mkdir),
    ("pipe", os.mkfifo),
    ("other_numbers", _node(stat.S_IFCHR, 1, 5)),
    ("other_type", _node(stat.S_IFBLK, 1, 3)),
    ids="LNX-DEV-03",
)
def something_else_there(c: Context, name: str, make: Callable[[str], None]) -> None:
    """Create fails if a different file exists at the device's path ({0})."""
    bundle = with_devices(c, NODE)
    path = bundle.rootfs / "opt/node"
    path.parent.mkdir()
    make(str(path))
    before = os.lstat(path)
    c.refused(bundle, f"a device where there is a {name}")
    after = os.lstat(path)
    c.equal((after.st_mode, after.st_rdev), (before.st_mode, before.st_rdev), "the old file")


@case("LNX-DEV-03")
def pipe_over_device(c: Context) -> None:
    """Create fails if a device node exists where a FIFO is to be created."""
    bundle = with_devices(c, {"path": "/opt/node", "type": "p"})
    (bundle.rootfs / "opt").mkdir()
    _node(stat.S_IFCHR, 1, 5)(str(bundle.rootfs / "opt/node"))
    c.refused(bundle, "a pipe where there is a device")


@case("LNX-DEV-03")
def same_there(c: Context) -> None:
    """A matching node that already exists at the device's path is accepted."""
    bundle = with_devices(c, NODE)
    (bundle.rootfs / "opt").mkdir()
    _node(stat.S_IFCHR, 1, 3)(str(bundle.rootfs / "opt/node"))
    found = look(c, bundle, "/opt/node")
    c.equal((found["kind"], found["major"], found["minor"]), ("c", 1, 3), "/opt/node")


@case("LNX-DEV-05")
def anywhere(c: Context) -> None:
    """A device may be outside /dev; its parent directories are created."""
    path = "/opt/x/y/null"
    found = look(c, with_devices(c, device(path, "c", 1, 3)), path)
    c.equal((found["kind"], found["major"], found["minor"]), ("c", 1, 3), path)


@table((0o640,), (0o606,), (0o777,), (0o2660,), ids="LNX-DEV-06")
def file_mode(c: Context, mode: int) -> None:
    """The device has the permission bits {0:o}, regardless of the caller's umask."""
    bundle = with_devices(c, device("/dev/one", "c", 1, 3, fileMode=mode))
    bundle.args("/bin/probe", "facts", "stat=/dev/one")
    box = c.run(bundle, before=lambda: os.umask(0o077) and None)
    found = box.reports[0]["stat"]["/dev/one"]
    c.equal(oct(found.get("mode", 0)), oct(mode), "mode of /dev/one")


@case("LNX-DEV-06")
def owner(c: Context) -> None:
    """The device is owned by the given user and group."""
    bundle = with_devices(c, device("/dev/one", "c", 1, 3, uid=1000, gid=1001))
    found = look(c, bundle, "/dev/one")
    c.equal((found["uid"], found["gid"]), (1000, 1001), "owner of /dev/one")


@case("LNX-DEV-06")
def default_owner(c: Context) -> None:
    """A device without uid and gid is owned by root in the container."""
    found = look(c, with_devices(c, device("/dev/one", "c", 1, 3)), "/dev/one")
    c.equal((found["uid"], found["gid"]), (0, 0), "owner of /dev/one")


@case("LNX-DEV-07")
def same_device_twice(c: Context) -> None:
    """A device that is listed under two paths is created at both.

    The clause restricts configs, not runtimes.
    """
    bundle = with_devices(c, device("/dev/one", "c", 1, 5), device("/dev/two", "c", 1, 5))
    facts = c.probe(bundle, "stat=/dev/one", "stat=/dev/two")
    for path in ("/dev/one", "/dev/two"):
        found = facts["stat"][path]
        c.equal((found.get("major"), found.get("minor")), (1, 5), path)


def _denied(c: Context, *devices: Json) -> Bundle:
    bundle = with_devices(c, *devices).capabilities("CAP_MKNOD")
    bundle.resources["devices"] = [{"allow": False, "access": "rwm"}]
    if c.host.cgroup_mode != "v2":
        c.need_controller("devices")
    node = c.directory / "fuse"
    _node(stat.S_IFCHR, *FUSE)(str(node))
    try:
        os.close(os.open(node, os.O_RDWR))
    except OSError as error:
        c.skip(f"the host itself cannot open /dev/fuse: {error.strerror}")
    return bundle


@table(("denied", True), ("unmentioned", False), ids="LNX-DEV-08")
def out_of_reach(c: Context, _name: str, denied: bool) -> None:
    """An unlisted device cannot be opened if the device rules leave it {0}."""
    bundle = _denied(c)
    if not denied:
        del bundle.resources["devices"]
    (bundle.rootfs / "opt").mkdir()
    _node(stat.S_IFCHR, *FUSE)(str(bundle.rootfs / "opt/fuse"))
    facts = c.probe(bundle, "open=b:/opt/fuse")
    c.equal(facts["open"]["b:/opt/fuse"], "EPERM", "opening a device that is not listed")


@table(*DEFAULTS, ids="LNX-DEV-08")
def within_reach(c: Context, name: str, _major: int, _minor: int) -> None:
    """The default device {0} can be opened even if the device rules deny all devices."""
    path = f"/dev/{name}"
    facts = c.probe(_denied(c), f"open=b:{path}")
    # tty: a process without a terminal gets as far as ENXIO.
    wanted = "ENXIO" if name == "tty" else "ok"
    c.equal(facts["open"][f"b:{path}"], wanted, f"opening {path}")


def _is_default(c: Context, bundle: Bundle, name: str, major: int, minor: int) -> None:
    path = f"/dev/{name}"
    facts = c.probe(bundle, f"stat={path}", f"open=b:{path}")
    found = facts["stat"][path]
    seen = (found.get("kind"), found.get("major"), found.get("minor"))
    c.equal(seen, ("c", major, minor), path)
    c.equal(oct(found["mode"]), oct(0o666), f"mode of {path}")
    c.equal(facts["open"][f"b:{path}"], "ENXIO" if name == "tty" else "ok", f"opening {path}")


@table(*DEFAULTS, ids="LNX-DEFDEV-01")
def default_device(c: Context, name: str, major: int, minor: int) -> None:
    """/dev/{0} exists even if it is not listed."""
    _is_default(c, c.bundle(), name, major, minor)


@table(*DEFAULTS, ids="LNX-DEFDEV-01")
def default_device_without_mount(c: Context, name: str, major: int, minor: int) -> None:
    """/dev/{0} exists even if nothing is mounted on /dev."""
    c.need_root()
    bundle = c.bundle()
    bundle.config["mounts"] = [one for one in bundle.mounts if one["destination"] == "/proc"]
    _is_default(c, bundle, name, major, minor)


@table(*DEFAULTS, ids="LNX-DEFDEV-01")
def default_device_for_user(c: Context, name: str, major: int, minor: int) -> None:
    """/dev/{0} exists in a container with a user namespace."""
    c.need_root()
    _is_default(c, c.bundle().user_namespace(), name, major, minor)


@table(*DEFAULTS, ids="LNX-DEFDEV-01")
def default_device_beside_listed(c: Context, name: str, major: int, minor: int) -> None:
    """/dev/{0} exists in addition to the devices that the config lists."""
    _is_default(c, with_devices(c, NODE), name, major, minor)


@case("LNX-DEFDEV-01")
def default_devices_in_bound_directory(c: Context) -> None:
    """The default devices exist even if /dev is a bind mount."""
    c.need_root()
    bundle = c.bundle()
    source = c.directory / "dev"
    source.mkdir()
    kept = [one for one in bundle.mounts if one["destination"] == "/proc"]
    bundle.config["mounts"] = kept
    bundle.bind(source, "/dev", "rbind")
    stats = c.probe(bundle, *(f"stat=/dev/{name}" for name, _, _ in DEFAULTS))["stat"]
    missing = [path for path, found in stats.items() if "error" in found]
    c.equal(missing, [], "missing default devices")


def _on_terminal(c: Context, *asks: str) -> Json:
    console = c.console()
    # Reports go to a file: standard output is the terminal.
    bundle = c.bundle(process={"terminal": True})
    bundle.args("/bin/probe", "to", "/out/facts", "--", "facts", *asks)
    box = c.create(bundle, "--console-socket", str(console.path))
    master = console.receive()
    box.start()
    box.wait()
    os.close(master)
    found: Json = json.loads(box.file("/out/facts").read_text())
    return found


@case("LNX-DEFDEV-02")
def console(c: Context) -> None:
    """/dev/console is the program's terminal."""
    facts = _on_terminal(c, "stat=/dev/console", "open=b:/dev/console")
    c.expect(facts["terminal"], "the program has no terminal")
    found: Any = facts["stat"]["/dev/console"]
    c.equal(found.get("kind"), "c", "kind of /dev/console")
    seen = os.makedev(found["major"], found["minor"])
    c.equal(seen, facts["terminal"]["rdev"], "device of /dev/console")
    c.equal(facts["open"]["b:/dev/console"], "ok", "opening /dev/console")


@case("LNX-DEFDEV-03")
def ptmx(c: Context) -> None:
    """/dev/ptmx is a symbolic link to pts/ptmx, or the same node."""
    stats = c.probe(c.bundle(), "stat=/dev/ptmx", "stat=/dev/pts/ptmx")["stat"]
    found, node = stats["/dev/ptmx"], stats["/dev/pts/ptmx"]
    if found.get("kind") == "l":
        c.expect(found["link"] in {"pts/ptmx", "/dev/pts/ptmx"}, f"it leads to {found['link']}")
    else:
        same = (found.get("device"), found.get("inode")) == (node["device"], node["inode"])
        c.expect(same, f"/dev/ptmx is not /dev/pts/ptmx: {found}")


@case("LNX-DEFDEV-03")
def ptmx_opens(c: Context) -> None:
    """/dev/ptmx can be opened."""
    facts = c.probe(c.bundle(), "open=b:/dev/ptmx")
    c.equal(facts["open"]["b:/dev/ptmx"], "ok", "opening /dev/ptmx")


@case("LNX-DEFDEV-03")
def own_devpts(c: Context) -> None:
    """/dev/ptmx belongs to the container's own devpts instance."""
    facts = c.probe(c.bundle(), "stat=/dev/pts/ptmx", "list=/dev/pts")
    c.equal(sorted(facts["list"]["/dev/pts"]), ["ptmx"], "what /dev/pts has at the start")
    device_number = facts["stat"]["/dev/pts/ptmx"]["device"]
    outside = os.stat("/dev/pts").st_dev if os.path.isdir("/dev/pts") else 0
    c.expect(device_number != outside, "it is the host's devpts")
