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
    """RootfsPropagation {0} is refused."""
    c.refused(c.bundle(linux={"rootfsPropagation": value}), f"rootfsPropagation {value}")


@contextmanager
def shared_root(c: Context, propagation: str) -> Iterator[Bundle]:
    """A bundle on a host whose mounts are shared, as they are where systemd is."""
    c.need_root()
    bundle = c.bundle(linux={"rootfsPropagation": propagation})
    isolation.mount("none", "/", None, isolation.MS_REC | isolation.MS_SHARED)
    try:
        yield bundle
    finally:
        isolation.mount("none", "/", None, isolation.MS_REC | isolation.MS_PRIVATE)


def root_of(c: Context, box: Container) -> Mount:
    """The mount on / that the process has."""
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
    """The root mount is {0}."""
    with shared_root(c, value) as bundle:
        root = root_of(c, c.create(bundle))
    c.expect(wanted <= root.propagation, f"{value}: the root mount has {sorted(root.tags)}")
    c.expect(not unwanted & root.propagation, f"{value}: the root mount has {sorted(root.tags)}")


@case("LNX-PROP-02")
def shared_with_no_host(c: Context) -> None:
    """A shared root mount is in a peer group of its own."""
    with shared_root(c, "shared") as bundle:
        outside = {tag for one in mounts.of() for tag in one.tags}
        root = root_of(c, c.create(bundle))
        peers = {tag for tag in root.tags if tag.startswith("shared:")}
        c.expect(not peers & outside, "it is shared with the host")


@table(("slave", True), ("private", False), ids="LNX-PROP-02")
def event_from_host(c: Context, value: str, arrives: bool) -> None:
    """A mount on the host after create arrives in a {0} root: {1}."""
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
    """The mounts of a container with a {0} root do not appear on the host."""
    with shared_root(c, value) as bundle:
        before = {one.point for one in mounts.of()}
        c.create(bundle.mount("/tmp", "tmpfs", "tmpfs"))
        c.equal({one.point for one in mounts.of()} - before, set(), "new mounts on the host")


@table(("out/x",), ("./out/x",), ids="LNX-MASK-01")
def relative_masked_path(c: Context, path: str) -> None:
    """The masked path {0} is refused."""
    bundle = c.bundle(linux={"maskedPaths": [path]})
    (bundle.rootfs / "out/x").write_text("secret")
    c.refused(bundle, f"masked path {path}")


def with_secret(c: Context, **linux: list[str]) -> Bundle:
    """A bundle with ``/etc/secret`` and ``/etc/secrets/one``."""
    bundle = c.bundle(linux=linux)
    (bundle.rootfs / "etc/secret").write_text("secret")
    (bundle.rootfs / "etc/secrets").mkdir()
    (bundle.rootfs / "etc/secrets/one").write_text("secret")
    return bundle


def readable(value: object) -> bool:
    """Return whether what the probe says of a file is a content other than none."""
    return bool(value) and not isinstance(value, dict)


@case("LNX-MASK-02")
def masked_file(c: Context) -> None:
    """A masked file gives nothing."""
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
    """Nothing can be made in a masked directory."""
    bundle = with_secret(c, maskedPaths=["/etc/secrets"]).does("try create /etc/secrets/new")
    c.expect(c.run(bundle).reports[0]["error"], "a file was made in a masked directory")


@case("LNX-MASK-02")
def masked_in_mount(c: Context) -> None:
    """A path in a mount of the config is masked as well."""
    source = c.directory / "data"
    source.mkdir()
    (source / "secret").write_text("secret")
    bundle = c.bundle(linux={"maskedPaths": ["/data/secret"]}).bind(source, "/data")
    facts = c.probe(bundle, "read=/data/secret")
    c.expect(not readable(facts["read"]["/data/secret"]), "the masked file was read")
    c.equal((source / "secret").read_text(), "secret", "the file on the host")


@case("LNX-MASK-02")
def masked_in_proc(c: Context) -> None:
    """A path in /proc is masked."""
    bundle = c.bundle(linux={"maskedPaths": ["/proc/version"]})
    facts = c.probe(bundle, "read=/proc/version")
    c.expect(not readable(facts["read"]["/proc/version"]), "the masked file was read")


@case("LNX-MASK-02")
def masked_path_missing(c: Context) -> None:
    """A masked path that does not exist does not matter, and is not made."""
    facts = c.probe(c.bundle(linux={"maskedPaths": ["/etc/none"]}), "stat=/etc/none")
    c.equal(facts["stat"]["/etc/none"], {"error": "ENOENT"}, "/etc/none")


@table(("out/x",), ("./out/x",), ids="LNX-RO-01")
def relative_readonly_path(c: Context, path: str) -> None:
    """The read-only path {0} is refused."""
    bundle = c.bundle(linux={"readonlyPaths": [path]})
    (bundle.rootfs / "out/x").write_text("text")
    c.refused(bundle, f"read-only path {path}")


@case("LNX-RO-02")
def readonly_file(c: Context) -> None:
    """A read-only file can be read and not written."""
    bundle = with_secret(c, readonlyPaths=["/etc/secret"])
    facts = c.probe(bundle, "read=/etc/secret", "open=w:/etc/secret", "open=w:/etc/passwd")
    c.equal(facts["open"]["w:/etc/secret"], "EROFS", "opening the file to write")
    c.equal(facts["read"]["/etc/secret"], "secret", "content")
    c.equal(facts["open"]["w:/etc/passwd"], "ok", "opening another file to write")


@case("LNX-RO-02")
def readonly_directory(c: Context) -> None:
    """In a read-only directory nothing can be made or changed."""
    bundle = with_secret(c, readonlyPaths=["/etc/secrets"])
    bundle.does("try create /etc/secrets/new", "facts open=w:/etc/secrets/one")
    made, facts = c.run(bundle).reports
    c.equal(made["error"], "EROFS", "making a file")
    c.equal(facts["open"]["w:/etc/secrets/one"], "EROFS", "opening a file to write")


@case("LNX-RO-02")
def readonly_in_proc(c: Context) -> None:
    """A path in /proc is read-only."""
    c.need_root()
    path = "/proc/sys/kernel/domainname"
    facts = c.probe(c.bundle(linux={"readonlyPaths": ["/proc/sys"]}), f"open=w:{path}")
    c.equal(facts["open"][f"w:{path}"], "EROFS", "opening it to write")


@case("LNX-RO-02")
def readonly_in_mount(c: Context) -> None:
    """A path in a mount of the config is read-only, not the mount."""
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
    """A read-only path that does not exist does not matter, and is not made."""
    facts = c.probe(c.bundle(linux={"readonlyPaths": ["/etc/none"]}), "stat=/etc/none")
    c.equal(facts["stat"]["/etc/none"], {"error": "ENOENT"}, "/etc/none")


@case("LNX-LABEL-01")
def mount_label(c: Context) -> None:
    """A tmpfs of the config has the context of mountLabel."""
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
    """A personality without a domain, or of an unknown one, is refused ({0})."""
    c.refused(c.bundle(linux={"personality": personality}), f"personality {personality}")


@table(("LINUX", 0), ("LINUX32", PER_LINUX32), ids="LNX-PERS-01")
def domain(c: Context, name: str, wanted: int) -> None:
    """The program has the personality {0}."""
    facts = c.probe(c.bundle(linux={"personality": {"domain": name}}))
    c.equal(facts["personality"] & 0xFF, wanted, "personality")


@case("LNX-PERS-01")
def machine_of_linux32(c: Context) -> None:
    """With LINUX32 the machine is a 32-bit one."""
    if platform.machine() != "x86_64":
        c.skip("needs x86_64")
    facts = c.probe(c.bundle(linux={"personality": {"domain": "LINUX32"}}))
    c.equal(facts["machine"], "i686", "machine")


@table(("X",), ("ADDR_NO_RANDOMIZE",), ids="LNX-PERS-02")
def flag(c: Context, name: str) -> None:
    """The personality flag {0} is refused."""
    personality = {"domain": "LINUX", "flags": [name]}
    c.refused(c.bundle(linux={"personality": personality}), f"personality flag {name}")


@case("LNX-PERS-02")
def no_flags(c: Context) -> None:
    """An empty list of flags is fine."""
    facts = c.probe(c.bundle(linux={"personality": {"domain": "LINUX32", "flags": []}}))
    c.equal(facts["personality"] & 0xFF, PER_LINUX32, "personality")
