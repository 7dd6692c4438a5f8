"""config-linux.md: rootfs propagation, masked and read-only paths, mount label, personality."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager

from conformance import isolation, mounts
from conformance.bundle import Bundle, Json
from conformance.case import case, table
from conformance.container import Container
from conformance.context import Context
from conformance.mounts import Mount, at

PER_LINUX32 = 8


@table(("bogus",), ("Shared",), ("rec",), ids="LNX-PROP-01")
def unknown_propagation(c: Context, value: str) -> None:
    """A rootfsPropagation of {0} is rejected."""
    c.refused(c.bundle(linux={"rootfsPropagation": value}), f"rootfsPropagation {value}")


@contextmanager
def shared_root(c: Context, propagation: str) -> Iterator[Bundle]:
    """Yield a bundle while all mounts of the host are shared, as they are with systemd."""
    c.need_root()
    bundle = c.bundle(linux={"rootfsPropagation": propagation})
    isolation.mount("none", "/", None, isolation.MS_REC | isolation.MS_SHARED)
    try:
        yield bundle
    finally:
        isolation.mount("none", "/", None, isolation.MS_REC | isolation.MS_PRIVATE)


def root_of(c: Context, box: Container) -> Mount:
    """Return the container's mount on /."""
    root = at("/", box.mountinfo())
    if root is None:
        c.fail("the container has no mount on /")
    return root


@table(
    ("shared", {"shared"}, set()),
    ("slave", {"master"}, {"shared"}),
    ("private", set(), {"shared", "master", "unbindable"}),
    ("unbindable", {"unbindable"}, {"shared"}),
    ids="LNX-PROP-02",
)
def propagation(c: Context, value: str, wanted: set[str], unwanted: set[str]) -> None:
    """The propagation of the root mount is {0}."""
    with shared_root(c, value) as bundle:
        root = root_of(c, c.create(bundle))
    c.expect(wanted <= root.propagation, f"{value}: the root mount has {sorted(root.tags)}")
    c.expect(not unwanted & root.propagation, f"{value}: the root mount has {sorted(root.tags)}")


@case("LNX-PROP-02")
def shared_with_no_host(c: Context) -> None:
    """A shared root mount is not in a peer group of the host's mounts."""
    with shared_root(c, "shared") as bundle:
        outside = {tag for one in mounts.of() for tag in one.tags}
        root = root_of(c, c.create(bundle))
        peers = {tag for tag in root.tags if tag.startswith("shared:")}
        c.expect(not peers & outside, "it is shared with the host")


@table(("slave", True), ("private", False), ids="LNX-PROP-02")
def event_from_host(c: Context, value: str, arrives: bool) -> None:
    """A mount made on the host after create propagates to a {0} root: {1}."""
    with shared_root(c, value) as bundle:
        box = c.create(bundle)
        target = str(bundle.rootfs / "tmp")
        isolation.mount("tmpfs", target, "tmpfs")
        try:
            c.equal(at("/tmp", box.mountinfo()) is not None, arrives, "mount on /tmp inside")
        finally:
            isolation.unmount(target)


@table(("slave",), ("private",), ("shared",), ("unbindable",), ids="LNX-PROP-02")
def no_event_to_host(c: Context, value: str) -> None:
    """Mounts of a container with a {0} root do not propagate to the host."""
    with shared_root(c, value) as bundle:
        before = {one.point for one in mounts.of()}
        c.create(bundle.mount("/tmp", "tmpfs", "tmpfs"))
        c.equal({one.point for one in mounts.of()} - before, set(), "new mounts on the host")


@table(("out/x",), ("./out/x",), ids="LNX-MASK-01")
def relative_masked_path(c: Context, path: str) -> None:
    """The relative masked path {0} is rejected."""
    bundle = c.bundle(linux={"maskedPaths": [path]})
    (bundle.rootfs / "out/x").write_text("secret")
    c.refused(bundle, f"masked path {path}")


def with_secret(c: Context, **linux: list[str]) -> Bundle:
    """Return a bundle with ``/etc/secret`` and ``/etc/secrets/one``."""
    bundle = c.bundle(linux=linux)
    (bundle.rootfs / "etc/secret").write_text("secret")
    (bundle.rootfs / "etc/secrets").mkdir()
    (bundle.rootfs / "etc/secrets/one").write_text("secret")
    return bundle


def readable(value: object) -> bool:
    """Return whether the probe's result ``value`` is content, neither empty nor an error."""
    return bool(value) and not isinstance(value, dict)


@case("LNX-MASK-02")
def masked_file(c: Context) -> None:
    """A masked file has no readable content."""
    facts = c.probe(with_secret(c, maskedPaths=["/etc/secret"]), "read=/etc/secret")
    c.expect(not readable(facts["read"]["/etc/secret"]), "the masked file was read")


@case("LNX-MASK-02")
def masked_directory(c: Context) -> None:
    """A masked directory is empty."""
    bundle = with_secret(c, maskedPaths=["/etc/secrets"])
    facts = c.probe(bundle, "list=/etc/secrets", "read=/etc/secrets/one")
    c.expect(not readable(facts["list"]["/etc/secrets"]), f"it has {facts['list']}")
    c.expect(not readable(facts["read"]["/etc/secrets/one"]), "a file in it was read")


@case("LNX-MASK-02")
def masked_directory_is_read_only(c: Context) -> None:
    """Files cannot be created in a masked directory."""
    bundle = with_secret(c, maskedPaths=["/etc/secrets"]).does("try create /etc/secrets/new")
    c.expect(c.run(bundle).reports[0]["error"], "a file was made in a masked directory")


@case("LNX-MASK-02")
def masked_in_mount(c: Context) -> None:
    """A masked path inside a mount of the config has no readable content."""
    source = c.directory / "data"
    source.mkdir()
    (source / "secret").write_text("secret")
    bundle = c.bundle(linux={"maskedPaths": ["/data/secret"]}).bind(source, "/data")
    facts = c.probe(bundle, "read=/data/secret")
    c.expect(not readable(facts["read"]["/data/secret"]), "the masked file was read")
    c.equal((source / "secret").read_text(), "secret", "the file on the host")


@case("LNX-MASK-02")
def masked_in_proc(c: Context) -> None:
    """A masked path in /proc has no readable content."""
    bundle = c.bundle(linux={"maskedPaths": ["/proc/version"]})
    facts = c.probe(bundle, "read=/proc/version")
    c.expect(not readable(facts["read"]["/proc/version"]), "the masked file was read")


@case("LNX-MASK-02")
def masked_path_missing(c: Context) -> None:
    """A masked path that does not exist is ignored and not created."""
    facts = c.probe(c.bundle(linux={"maskedPaths": ["/etc/none"]}), "stat=/etc/none")
    c.equal(facts["stat"]["/etc/none"], {"error": "ENOENT"}, "/etc/none")


@table(("out/x",), ("./out/x",), ids="LNX-RO-01")
def relative_readonly_path(c: Context, path: str) -> None:
    """The relative read-only path {0} is rejected."""
    bundle = c.bundle(linux={"readonlyPaths": [path]})
    (bundle.rootfs / "out/x").write_text("text")
    c.refused(bundle, f"read-only path {path}")


@case("LNX-RO-02")
def readonly_file(c: Context) -> None:
    """A read-only file can be read but not written."""
    bundle = with_secret(c, readonlyPaths=["/etc/secret"])
    facts = c.probe(bundle, "read=/etc/secret", "open=w:/etc/secret", "open=w:/etc/passwd")
    c.equal(facts["open"]["w:/etc/secret"], "EROFS", "opening the file to write")
    c.equal(facts["read"]["/etc/secret"], "secret", "content")
    c.equal(facts["open"]["w:/etc/passwd"], "ok", "opening another file to write")


@case("LNX-RO-02")
def readonly_directory(c: Context) -> None:
    """Files in a read-only directory cannot be created or changed."""
    bundle = with_secret(c, readonlyPaths=["/etc/secrets"])
    bundle.does("try create /etc/secrets/new", "facts open=w:/etc/secrets/one")
    made, facts = c.run(bundle).reports
    c.equal(made["error"], "EROFS", "making a file")
    c.equal(facts["open"]["w:/etc/secrets/one"], "EROFS", "opening a file to write")


@case("LNX-RO-02")
def readonly_in_proc(c: Context) -> None:
    """Files below a read-only path in /proc cannot be opened for writing."""
    c.need_root()
    path = "/proc/sys/kernel/domainname"
    facts = c.probe(c.bundle(linux={"readonlyPaths": ["/proc/sys"]}), f"open=w:{path}")
    c.equal(facts["open"][f"w:{path}"], "EROFS", "opening it to write")


@case("LNX-RO-02")
def readonly_in_mount(c: Context) -> None:
    """A read-only path inside a mount is read-only; the rest of the mount stays writable."""
    source = c.directory / "data"
    source.mkdir()
    for name in ("one", "two"):
        (source / name).write_text(name)
    bundle = c.bundle(linux={"readonlyPaths": ["/data/one"]}).bind(source, "/data")
    facts = c.probe(bundle, "open=w:/data/one", "open=w:/data/two")
    c.equal(facts["open"]["w:/data/one"], "EROFS", "opening it to write")
    c.equal(facts["open"]["w:/data/two"], "ok", "opening the file next to it for writing")


@case("LNX-RO-02")
def readonly_path_missing(c: Context) -> None:
    """A read-only path that does not exist is ignored and not created."""
    facts = c.probe(c.bundle(linux={"readonlyPaths": ["/etc/none"]}), "stat=/etc/none")
    c.equal(facts["stat"]["/etc/none"], {"error": "ENOENT"}, "/etc/none")


@case("LNX-LABEL-01")
def mount_label(c: Context) -> None:
    """A tmpfs mount of the config has the SELinux context of mountLabel."""
    if "selinux" not in c.host.security_modules:
        c.skip("the host has no SELinux")
    label = "system_u:object_r:container_file_t:s0:c1,c2"
    bundle = c.bundle(linux={"mountLabel": label}).mount("/tmp", "tmpfs", "tmpfs")
    mount = at("/tmp", c.create(bundle).mountinfo())
    options = ",".join(sorted(mount.super_options)) if mount else ""
    c.expect("container_file_t" in options, f"/tmp has {options}")


@table(
    ("no_domain", {}),
    ("flags_only", {"flags": []}),
    ("BSD", {"domain": "BSD"}),
    ("linux", {"domain": "linux"}),
    ("number", {"domain": 8}),
    ids="LNX-PERS-01",
)
def bad_domain(c: Context, _name: str, personality: Json) -> None:
    """A personality with a missing or unknown domain is rejected ({0})."""
    c.refused(c.bundle(linux={"personality": personality}), f"personality {personality}")


@table(("LINUX", 0), ("LINUX32", PER_LINUX32), ids="LNX-PERS-01")
def domain(c: Context, name: str, wanted: int) -> None:
    """The program has the personality {0}."""
    facts = c.probe(c.bundle(linux={"personality": {"domain": name}}))
    c.equal(facts["personality"] & 0xFF, wanted, "personality")


@case("LNX-PERS-01")
def machine_of_linux32(c: Context) -> None:
    """The personality LINUX32 makes the kernel report a 32-bit machine."""
    if platform.machine() != "x86_64":
        c.skip("needs x86_64")
    facts = c.probe(c.bundle(linux={"personality": {"domain": "LINUX32"}}))
    c.equal(facts["machine"], "i686", "machine")


@table(("X",), ("ADDR_NO_RANDOMIZE",), ids="LNX-PERS-02")
def flag(c: Context, name: str) -> None:
    """The personality flag {0} is rejected."""
    personality = {"domain": "LINUX", "flags": [name]}
    c.refused(c.bundle(linux={"personality": personality}), f"personality flag {name}")


@case("LNX-PERS-02")
def no_flags(c: Context) -> None:
    """An empty list of personality flags is accepted."""
    facts = c.probe(c.bundle(linux={"personality": {"domain": "LINUX32", "flags": []}}))
    c.equal(facts["personality"] & 0xFF, PER_LINUX32, "personality")
