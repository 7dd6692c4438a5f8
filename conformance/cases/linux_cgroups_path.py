"""config-linux.md: cgroups, cgroupsPath, cgroup ownership."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

from conformance import cgroups, isolation
from conformance.bundle import Bundle
from conformance.case import case, table
from conformance.container import Container
from conformance.context import Context

DELEGATE = Path("/sys/kernel/cgroup/delegate")
WELL_KNOWN = {"cgroup.procs", "cgroup.subtree_control", "cgroup.threads"}
OWNER = 100000


def own_places(c: Context) -> None:
    """Skip if cgroupsPath does not name a cgroup directory: with systemd it names a unit."""
    c.need_root("needs control groups to write to")
    if c.runtime.systemd:
        c.skip("for systemd cgroupsPath names a unit")
    if c.host.cgroup_mode == "none":
        c.skip("the host has no control groups")


def joined(box: Container) -> dict[str, Path]:
    """Return the container's cgroups, except those that the test kit is in itself."""
    own = cgroups.of("self")
    return {name: path for name, path in box.cgroups().items() if own.get(name) != path}


def own_cgroups(c: Context, box: Container) -> dict[str, Path]:
    """Return the same as ``joined``; fail if none of these cgroups can limit anything.

    Next to v1, the v2 hierarchy has hardly any controllers.
    """
    places = joined(box)
    oldest = min(each.version for each in cgroups.hierarchies())
    limiting = tuple(str(each.point) for each in cgroups.hierarchies() if each.version == oldest)
    used = any(str(path).startswith(limiting) for path in places.values())
    c.expect(used, "the process is in none but the kit's own cgroups")
    return places


def clear_later(c: Context, path: str) -> None:
    """Register the cgroups of this path for removal.

    A runtime may keep the parent cgroups that it created.
    """
    for hierarchy in cgroups.hierarchies():
        place = hierarchy.point
        for part in path.strip("/").split("/"):
            place /= part
            c.made_cgroups.append(place)


def unharmed(c: Context, bundle: Bundle, first: Container | None) -> None:
    """Require that create either fails and leaves nothing, or makes a working container."""
    box, result = c.attempt_create(bundle)
    if result.ok:
        for path in box.cgroups().values():
            if first is None:
                cgroups.thaw(path)
        box.start()
        c.equal(box.status, "running", "status of a container in a cgroup taken as fit")
    else:
        box.deleted = True
        c.expect(not box.attempt("state").ok, "a failed create left its container")
    if first is not None:
        c.equal(first.status, "running", "status of the container that was there first")


def thaw(path: str) -> None:
    """Thaw the cgroup in all hierarchies."""
    for hierarchy in cgroups.hierarchies():
        cgroups.thaw(hierarchy.point / path[1:])


@case("LNX-CG-01")
def cgroup_in_use(c: Context) -> None:
    """Create in a cgroup that has processes either fails or makes a working container."""
    own_places(c)
    first = c.started()
    second = c.bundle()
    second.linux["cgroupsPath"] = first.bundle.linux["cgroupsPath"]
    unharmed(c, second, first)


@case("LNX-CG-01")
def frozen_cgroup(c: Context) -> None:
    """Create in a frozen cgroup fails, or makes a container once the cgroup is thawed."""
    own_places(c)
    path = c.make_cgroups("frozen")
    for hierarchy in cgroups.hierarchies():
        for file, word in (("freezer.state", "FROZEN"), ("cgroup.freeze", "1")):
            if (hierarchy.point / path[1:] / file).exists():
                (hierarchy.point / path[1:] / file).write_text(word)
    bundle = c.bundle()
    bundle.linux["cgroupsPath"] = path
    # A runtime that does not look into it waits for the process that it put there.
    timer = threading.Timer(1, thaw, (path,))
    timer.start()
    unharmed(c, bundle, None)
    timer.join()


@table(("absolute", "/{0}"), ("relative", "{0}"), ids="LNX-CGPATH-01")
def form_of_path(c: Context, _name: str, form: str) -> None:
    """A cgroupsPath that is {0} is accepted, and the process's cgroup has its name."""
    own_places(c)
    name = c.id()
    bundle = c.bundle()
    bundle.linux["cgroupsPath"] = form.format(name)
    places = own_cgroups(c, c.create(bundle))
    other = {str(path) for path in places.values() if path.name != name}
    c.equal(other, set(), "cgroups with another name")


@case("LNX-CGPATH-02")
def absolute_path(c: Context) -> None:
    """An absolute cgroupsPath starts at the mount point of each hierarchy that is used."""
    own_places(c)
    path = c.make_cgroups("parent") + "/box"
    bundle = c.bundle()
    bundle.linux["cgroupsPath"] = path
    places = own_cgroups(c, c.create(bundle))
    wanted = {hierarchy.point / path[1:] for hierarchy in cgroups.hierarchies()}
    c.equal(set(map(str, set(places.values()) - wanted)), set(), "cgroups at other places")


@table(("absolute", "/{0}"), ("relative", "{0}"), ids="LNX-CGPATH-03")
def same_place(c: Context, _name: str, form: str) -> None:
    """A cgroupsPath that is {0} does not depend on the caller's directory and cgroup."""
    own_places(c)
    elsewhere = c.make_cgroups("elsewhere")
    name = form.format(c.id())

    def move() -> None:
        for hierarchy in cgroups.hierarchies():
            (hierarchy.point / elsewhere[1:] / "cgroup.procs").write_text("0")

    places = []
    elsewhere_too: dict[str, Any] = {"cwd": Path("/"), "before": move}
    for options in ({}, elsewhere_too):
        bundle = c.bundle()
        bundle.linux["cgroupsPath"] = name
        box = c.create(bundle, **options)
        places.append({key: str(path) for key, path in joined(box).items()})
        box.delete("--force")
    c.expect(places[0], "the process is in none but the kit's own cgroups")
    c.equal(places[1], places[0], "places of the second container")


@table(("NUL", "/{0}\0x"), ("number", 5), ("list", ["/a"]), ids="LNX-CGPATH-04")
def impossible_path(c: Context, _name: str, value: object) -> None:
    """An invalid cgroupsPath ({0}) is rejected."""
    bundle = c.bundle()
    bundle.linux["cgroupsPath"] = value.format(c.token) if isinstance(value, str) else value
    c.refused(bundle, f"cgroupsPath {value!r}")


@table(("absolute", "/../../{0}"), ("relative", "../../{0}"), ids="LNX-CGPATH-04")
def path_that_leads_out(c: Context, _name: str, form: str) -> None:
    """A cgroupsPath that leads out ({0}) is rejected or stays within the hierarchies."""
    own_places(c)
    name = c.id()
    bundle = c.bundle()
    bundle.linux["cgroupsPath"] = form.format(name)
    box, result = c.attempt_create(bundle)
    if not result.ok:
        box.deleted = True
        return
    places = joined(box)
    c.expect(places, "accepted, and the process is in none but the kit's own cgroups")
    c.expect(all(path.name == name for path in places.values()), f"strange places: {places}")


@case("LNX-CGPATH-05")
def missing_cgroups(c: Context) -> None:
    """All missing cgroups of a deep path are created."""
    own_places(c)
    path = f"/{c.id()}/middle/box"
    clear_later(c, path)
    bundle = c.bundle()
    bundle.linux["cgroupsPath"] = path
    places = own_cgroups(c, c.create(bundle))
    for place in places.values():
        c.expect(str(place).endswith(path), f"the process is in {place}")


# --- ownership ---


def delegated(c: Context, *options: str, mounted: bool = True, separate: bool = True) -> Bundle:
    """Return a bundle with a user namespace.

    Unless told otherwise, it has a cgroup namespace and the cgroup filesystem mounted.
    """
    c.need_root("needs control groups to write to")
    bundle = c.bundle().user_namespace()
    if separate:
        bundle.namespace("cgroup")
    if mounted:
        bundle.mount("/sys/fs/cgroup", "cgroup", "cgroup", *options)
        (bundle.rootfs / "sys/fs/cgroup").mkdir(parents=True)
        for path in ("sys/fs", "sys/fs/cgroup"):
            os.chown(bundle.rootfs / path, OWNER, OWNER)
    return bundle


def created(c: Context, bundle: Bundle) -> Container:
    """Create the container; skip if such a mount is not possible in a user namespace."""
    box, result = c.attempt_create(bundle)
    if not result.ok:
        box.deleted = True
        c.skip(f"no such container here: {result.complaint}")
    return box


def owned(directory: Path, owner: int = OWNER) -> set[str]:
    """Return the files of a cgroup that this host UID owns; the directory is ``"."``."""
    names = [".", *(entry.name for entry in os.scandir(directory) if entry.is_file())]
    return {name for name in names if (directory / name).stat().st_uid == owner}


def v2_owned(c: Context, bundle: Bundle, owner: int = OWNER) -> set[str]:
    """Create the container; return which files of its v2 cgroup this host UID owns.

    The default is the UID of the container's root.
    """
    places = joined(c.create(bundle))
    c.expect("" in places, "the process is in no v2 cgroup of its own")
    return owned(places[""], owner)


@case("LNX-CGOWN-01")
def v1_owner(c: Context) -> None:
    """The v1 cgroups remain owned by the host's root, even if they are mounted writable."""
    if 1 not in {one.version for one in cgroups.hierarchies()}:
        c.skip("needs control groups v1")
    places = joined(created(c, delegated(c)))
    for name, place in places.items():
        if name:
            c.equal(owned(place), set(), f"files in {place} that the container's root owns")


@case("LNX-CGOWN-02")
def owner_without_namespace(c: Context) -> None:
    """Without a new cgroup namespace, the cgroup remains owned by the host's root."""
    c.need_controller("memory", "v2")
    place = joined(created(c, delegated(c, separate=False)))[""]
    c.equal(owned(place), set(), "files that the container's root owns")


@case("LNX-CGOWN-03")
def owner(c: Context) -> None:
    """The container's root owns the directory of a cgroup that is mounted writable."""
    c.need_controller("memory", "v2")
    found = v2_owned(c, delegated(c))
    c.expect("." in found, "the directory does not belong to the container's root")


@case("LNX-CGOWN-03")
def owner_with_another_user(c: Context) -> None:
    """The cgroup's owner is the program's user, not the container's root."""
    c.need_controller("memory", "v2")
    bundle = delegated(c)
    bundle.process["user"] = {"uid": 1000, "gid": 1000}
    found = v2_owned(c, bundle, OWNER + 1000)
    c.expect("." in found, "the directory does not belong to the program's user")


@table(("unmounted", False), ("read-only", True), ids="LNX-CGOWN-04")
def owner_without_mount(c: Context, _name: str, mounted: bool) -> None:
    """A cgroup that is {0} remains owned by the host's root."""
    c.need_controller("memory", "v2")
    found = v2_owned(c, delegated(c, "ro", mounted=mounted))
    c.equal(found, set(), "files that the container's root owns")


@case("LNX-CGOWN-05", "LNX-CGOWN-07")
def listed_files(c: Context) -> None:
    """The container's root owns exactly the directory and the listed files that exist."""
    c.need_controller("memory", "v2")
    if not DELEGATE.exists():
        c.skip("the kernel has no list of files for delegation")
    place = joined(c.create(delegated(c)))[""]
    listed = {name for name in DELEGATE.read_text().split() if (place / name).exists()}
    c.equal(sorted(owned(place)), sorted(listed | {"."}), "files of the container's root")


@case("LNX-CGOWN-06")
def absent_listed_file(c: Context) -> None:
    """A listed file that does not exist is skipped, and the others change owner."""
    c.need_controller("memory", "v2")
    if not DELEGATE.exists():
        c.skip("the kernel has no list of files for delegation")
    listed = c.directory / "delegate"
    listed.write_text("no.such.file\ncgroup.procs\n")
    isolation.mount(str(listed), str(DELEGATE), None, isolation.MS_BIND)
    try:
        found = v2_owned(c, delegated(c))
    finally:
        isolation.unmount(str(DELEGATE))
    c.expect("cgroup.procs" in found, "cgroup.procs is not the container's root's")


@case("LNX-CGOWN-08")
def owner_without_list(c: Context) -> None:
    """If the kernel has no list, the container's root owns the three well-known files."""
    c.need_controller("memory", "v2")
    hidden = DELEGATE.parent
    if hidden.exists():
        isolation.mount("none", str(hidden), "tmpfs", isolation.MS_RDONLY)
    try:
        found = v2_owned(c, delegated(c))
    finally:
        if hidden.exists():
            isolation.unmount(str(hidden))
    c.equal(sorted(WELL_KNOWN - found), [], "well-known files that kept their owner")


@case("LNX-CGOWN-09")
def files_of_controllers(c: Context) -> None:
    """The container's root does not own the files that set the container's limits."""
    c.need_controller("memory", "v2")
    bundle = delegated(c)
    bundle.resources["memory"] = {"limit": 64 << 20}
    c.expect("memory.max" not in v2_owned(c, bundle), "memory.max is the container's root's")
