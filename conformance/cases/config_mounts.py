"""config.md: mounts."""

from __future__ import annotations

from typing import Any

from conformance import mounts
from conformance.bundle import ABSENT, Bundle
from conformance.case import case, table
from conformance.context import Context


def with_source(c: Context, *actions: str) -> tuple[Bundle, str]:
    """Return a bundle, and a host directory to bind-mount with the file ``mark`` in it."""
    source = c.directory / "source"
    (source / "below").mkdir(parents=True)
    (source / "mark").write_text("source")
    return c.bundle(*actions), str(source)


def reads(c: Context, bundle: Bundle, path: str, **more: Any) -> object:
    """Return what the program reads from ``path``."""
    return c.probe(bundle, f"read={path}", **more)["read"][path]


@case("CFG-MOUNT-01")
def bind_after_tmpfs(c: Context) -> None:
    """A mount below an earlier mount is visible."""
    bundle, source = with_source(c)
    bundle.mount("/tmp", "tmpfs", "tmpfs").bind(source, "/tmp/deep")
    c.equal(reads(c, bundle, "/tmp/deep/mark"), "source", "mark")


@case("CFG-MOUNT-01")
def tmpfs_after_bind(c: Context) -> None:
    """A later mount on a parent directory hides an earlier mount below it."""
    bundle, source = with_source(c)
    (bundle.rootfs / "tmp/deep").mkdir()
    bundle.bind(source, "/tmp/deep").mount("/tmp", "tmpfs", "tmpfs")
    facts = c.probe(bundle, "list=/tmp")
    c.equal(facts["list"]["/tmp"], [], "entries of /tmp")


@table(("ab",), ("ba",), ids="CFG-MOUNT-01")
def same_destination(c: Context, order: str) -> None:
    """The later of two mounts on the same destination is on top ({0})."""
    bundle = c.bundle()
    for name in order:
        source = c.directory / name
        source.mkdir()
        (source / "mark").write_text(name)
        bundle.bind(source, "/tmp")
    c.equal(reads(c, bundle, "/tmp/mark"), order[-1], "mark")


@table(("absent", ABSENT), ("empty", ""), ids="CFG-MOUNT-02")
def no_destination(c: Context, _name: str, value: object) -> None:
    """A mount whose destination is {0} is rejected."""
    entry = {"destination": value, "type": "tmpfs", "source": "tmpfs"}
    bundle = c.bundle()
    bundle.mounts.append({key: one for key, one in entry.items() if one is not ABSENT})
    c.refused(bundle, f"destination {value!r}")


@table(("tmp",), ("./tmp",), ("var/../tmp",), ids="CFG-MOUNT-04")
def relative_destination(c: Context, destination: str) -> None:
    """The destination {0} means /tmp, whatever the process's working directory is."""
    bundle, source = with_source(c)
    bundle.change(process={"cwd": "/usr"}).bind(source, destination)
    c.equal(reads(c, bundle, "/tmp/mark"), "source", "/tmp/mark")


@case("CFG-MOUNT-04")
def destination_stays_inside(c: Context) -> None:
    """A destination with too many ``..`` stays inside the root filesystem."""
    bundle, source = with_source(c)
    bundle.bind(source, "/../../../../tmp")
    c.equal(reads(c, bundle, "/tmp/mark"), "source", "/tmp/mark")


@table(("data",), ("./data",), ("etc/../data",), ids="CFG-MOUNT-05")
def relative_source(c: Context, source: str) -> None:
    """The source {0} is relative to the bundle, not to the caller's directory."""
    bundle, elsewhere = c.bundle(), c.bundle()
    for one, text in ((bundle, "bundle"), (elsewhere, "caller")):
        (one.path / "etc").mkdir()
        (one.path / "data").mkdir()
        (one.path / "data/mark").write_text(text)
    bundle.bind(source, "/tmp")
    c.equal(reads(c, bundle, "/tmp/mark", cwd=elsewhere.path), "bundle", "/tmp/mark")


@case("CFG-MOUNT-05")
def absolute_source(c: Context) -> None:
    """An absolute source is resolved on the host."""
    bundle, source = with_source(c)
    (bundle.rootfs / source[1:]).mkdir(parents=True)
    c.equal(reads(c, bundle.bind(source, "/tmp"), "/tmp/mark"), "source", "/tmp/mark")


@case("CFG-MOUNT-05")
def file_source(c: Context) -> None:
    """A file can be bind-mounted on a file."""
    bundle, source = with_source(c)
    bundle.bind(f"{source}/mark", "/etc/passwd")
    c.equal(reads(c, bundle, "/etc/passwd"), "source", "/etc/passwd")


@case("CFG-MOUNT-05")
def missing_source(c: Context) -> None:
    """A bind mount whose source is missing is rejected, and the source is not created."""
    bundle = c.bundle()
    bundle.bind("nowhere", "/tmp")
    c.refused(bundle, "the source of a bind mount is not there")
    c.expect(not (bundle.path / "nowhere").exists(), "the runtime made the source")


@table(
    ("none, bind", "none", "bind"),
    ("bind, bind", "bind", "bind"),
    ("tmpfs, bind", "tmpfs", "bind"),
    ("absent, bind", None, "bind"),
    ("absent, rbind", None, "rbind"),
    ("tmpfs, rbind", "tmpfs", "rbind"),
    ids="CFG-MOUNT-06",
)
def bind_by_option(c: Context, _name: str, kind: str | None, word: str) -> None:
    """The option bind or rbind makes a bind mount, regardless of the type ({0})."""
    bundle, source = with_source(c)
    bundle.mount("/tmp", kind, source, word)
    c.equal(reads(c, bundle, "/tmp/mark"), "source", "/tmp/mark")


@table(
    ("user", {"nosuid", "nodev", "noexec"}),
    ("users", {"nosuid", "nodev", "noexec"}),
    ("owner", {"nosuid", "nodev"}),
    ("group", {"nosuid", "nodev"}),
    ids="CFG-MOUNT-07",
)
def implied_options(c: Context, word: str, implied: set[str]) -> None:
    """The option {0}, if supported, implies the same options as in mount(8)."""
    box, result = c.attempt_create(c.bundle().mount("/tmp", "tmpfs", "tmpfs", word))
    if not result.ok:
        box.deleted = True
        c.skip("the runtime does not take it")
    found = mounts.at("/tmp", box.mountinfo())
    c.expect(found, "no mount on /tmp")
    assert found is not None
    c.equal(implied & found.options, implied, "options of the mount")


@table(("nofail",), ("_netdev",), ("noauto",), ("x-note=1",), ids="CFG-MOUNT-07")
def without_effect(c: Context, word: str) -> None:
    """The option {0}, if accepted, does not affect the requested mount."""
    bundle = c.bundle().mount("/tmp", "tmpfs", "tmpfs", word, "size=64k")
    box, result = c.attempt_create(bundle)
    if not result.ok:
        box.deleted = True
        c.skip("the runtime does not take it")
    found = mounts.at("/tmp", box.mountinfo())
    c.expect(found, "no mount on /tmp")
    assert found is not None
    c.expect("size=64k" in found.super_options, f"options of the tmpfs: {found.super_options}")


@table(
    ("one", ["mode=700"], {"mode=700"}),
    ("several", ["mode=711", "size=64k", "nr_inodes=32"], {"mode=711", "size=64k", "nr_inodes=32"}),
    ("among flags", ["nodev", "size=64k", "noexec", "mode=701"], {"size=64k", "mode=701"}),
    ("with a comma", ["mode=711,size=64k"], {"mode=711", "size=64k"}),
    ids="CFG-MOUNT-08",
)
def options_as_data(c: Context, _name: str, options: list[str], wanted: set[str]) -> None:
    """Filesystem-specific options are passed on to the filesystem ({0})."""
    found = mounts.at(
        "/tmp", c.create(c.bundle().mount("/tmp", "tmpfs", "t", *options)).mountinfo()
    )
    c.expect(found, "no mount on /tmp")
    assert found is not None
    c.equal(wanted & found.super_options, wanted, "options of the tmpfs")


@case("CFG-MOUNT-08")
def unknown_option(c: Context) -> None:
    """An option that neither the runtime nor the filesystem knows makes create fail."""
    c.refused(c.bundle().mount("/tmp", "tmpfs", "tmpfs", "nosuchoption=1"), "nosuchoption=1")


@table(("nosuchfs",), ("",), ids="CFG-MOUNT-09")
def unknown_type(c: Context, kind: str) -> None:
    """A mount of type '{0}' is rejected."""
    c.refused(c.bundle().mount("/tmp", kind, "none"), f"a mount of type {kind!r}")


@table(("tmpfs",), ("proc",), ("sysfs",), ("mqueue",), ("devpts",), ids="CFG-MOUNT-09")
def kernel_type(c: Context, kind: str) -> None:
    """A mount of type {0} has that filesystem type and the given source."""
    if kind not in c.host.filesystems:
        c.skip(f"the kernel has no {kind}")
    found = mounts.at("/tmp", c.create(c.bundle().mount("/tmp", kind, "name")).mountinfo())
    c.expect(found, "no mount on /tmp")
    assert found is not None
    c.equal((found.fstype, found.source), (kind, "name"), "type and source")


@case("CFG-MOUNT-10")
def no_mounts(c: Context) -> None:
    """Without mounts, nothing is mounted except the root filesystem and devices."""
    c.need_root("binds of devices have their own file systems")
    box = c.started(c.bundle("touch /out/ran", "sleep", mounts=ABSENT))
    c.until(box.file("/out/ran").exists, "the program did not run")
    points = {one.point for one in box.mountinfo() if not one.point.startswith("/dev/")}
    c.expect(points <= {"/", "/dev"}, f"unexpected mounts: {sorted(points)}")


@case("CFG-MOUNT-10")
def rootfs_between_mounts(c: Context) -> None:
    """Mounts leave all other files of the root filesystem in place."""
    bundle = c.bundle()
    (bundle.rootfs / "etc/mark").write_text("rootfs")
    bundle.mount("/etc/below", "tmpfs", "tmpfs")
    facts = c.probe(bundle, "read=/etc/mark", "list=/etc")
    c.equal(facts["read"]["/etc/mark"], "rootfs", "/etc/mark")
    c.expect({"passwd", "below"} <= set(facts["list"]["/etc"]), "entries of /etc")
