"""config.md: mount options for Linux, one by one."""

from __future__ import annotations

from collections.abc import Sequence

from conformance import mounts
from conformance.bundle import Bundle
from conformance.case import case, table
from conformance.context import Context
from conformance.mounts import Mount


def created(c: Context, bundle: Bundle, point: str = "/tmp") -> Mount:
    """Create the container and return its mount on ``point``."""
    found = mounts.at(point, c.create(bundle).mountinfo())
    if found is None:
        c.fail(f"no mount on {point}")
    return found


def fresh(c: Context, *options: str) -> Mount:
    """Create a container with a new tmpfs with these options; return that mount."""
    return created(c, c.bundle().mount("/tmp", "tmpfs", "tmpfs", *options))


def need_option(c: Context, word: str) -> None:
    """Skip if the kernel is too old for the option."""
    if "symfollow" in word:
        c.need_kernel(5, 10)


def shows(c: Context, found: Mount, *words: str) -> None:
    """Require that all of these are options of the mount or of its filesystem."""
    missing = set(words) - found.options - found.super_options
    c.expect(not missing, f"no {', '.join(sorted(missing))} but {','.join(sorted(found.options))}")


def shows_not(c: Context, found: Mount, *words: str) -> None:
    """Require that none of these is an option of the mount or of its filesystem."""
    extra = set(words) & (found.options | found.super_options)
    c.expect(not extra, f"{found.point} has {', '.join(sorted(extra))}")


OF_MOUNT = ("ro", "nodev", "noexec", "nosuid", "noatime", "nodiratime", "nosymfollow")
OF_FILE_SYSTEM = ("sync", "dirsync", "lazytime")
CLEARS = {
    "async": "sync",
    "atime": "noatime",
    "dev": "nodev",
    "diratime": "nodiratime",
    "exec": "noexec",
    "nolazytime": "lazytime",
    "rw": "ro",
    "suid": "nosuid",
    "symfollow": "nosymfollow",
}


@table(*((one,) for one in (*OF_MOUNT, *OF_FILE_SYSTEM)), ids="CFG-MOPT-{0}")
def sets_on_new(c: Context, word: str) -> None:
    """A new filesystem mounted with {0} has that option and no unrequested ones."""
    need_option(c, word)
    found = fresh(c, word)
    shows(c, found, word)
    if c.host.root:
        shows_not(c, found, *({*OF_MOUNT, *OF_FILE_SYSTEM} - {word}))


@table(*((one,) for one in OF_MOUNT), ids="CFG-MOPT-{0}")
def sets_on_bind(c: Context, word: str) -> None:
    """A bind mount with {0} has that option, and its source does not."""
    need_option(c, word)
    source = c.mount_tmpfs("source")
    shows(c, created(c, c.bundle().bind(source, "/tmp", "bind", word)), word)
    outside = mounts.at(str(source), mounts.of())
    c.expect(outside and word not in outside.options, f"the source has become {word}")


@table(*CLEARS.items(), ids="CFG-MOPT-{0}")
def clears_earlier(c: Context, word: str, opposite: str) -> None:
    """The option {0} overrides an earlier {1}, and vice versa."""
    need_option(c, word)
    shows_not(c, fresh(c, opposite, word), opposite)
    shows(c, fresh(c, word, opposite), opposite)


# Not atime: a remount that names no kind of access times leaves them as they are.
@table(
    ("dev", "nodev"),
    ("exec", "noexec"),
    ("rw", "ro"),
    ("suid", "nosuid"),
    ("symfollow", "nosymfollow"),
    ids="CFG-MOPT-{0}",
)
def clears_of_source(c: Context, word: str, opposite: str) -> None:
    """A bind mount with {0} does not inherit {1} from its source."""
    need_option(c, word)
    source = c.mount_tmpfs("source", opposite)
    shows_not(c, created(c, c.bundle().bind(source, "/tmp", "bind", word)), opposite)


@table(("loud", "silent"), ("noiversion", "iversion"), ids=("CFG-MOPT-{0}", "CFG-MOPT-{1}"))
def invisible(c: Context, off: str, on: str) -> None:
    """The options {0} and {1} are flags: filesystems that do not know them still mount."""
    for options in ((off,), (on,), (on, off)):
        shows(c, fresh(c, *options, "size=64k"), "size=64k")


@table(("mand",), ("nomand",), ids="CFG-MOPT-{0}")
def mandatory_locks(c: Context, word: str) -> None:
    """The option {0}, if supported, is treated as a flag."""
    box, result = c.attempt_create(c.bundle().mount("/tmp", "tmpfs", "tmpfs", word, "size=64k"))
    if not result.ok:
        box.deleted = True
        c.skip("the runtime does not offer it")
    found = mounts.at("/tmp", box.mountinfo())
    c.expect(found and "size=64k" in found.super_options, f"the mount is {found}")


@case("CFG-MOPT-defaults")
def defaults(c: Context) -> None:
    """A new filesystem mounted with defaults has no flags set."""
    found = fresh(c, "defaults", "size=64k")
    shows(c, found, "rw", "size=64k")
    shows_not(c, found, *OF_MOUNT, *OF_FILE_SYSTEM)


@case("CFG-MOPT-defaults")
def defaults_of_bind(c: Context) -> None:
    """A bind mount accepts the option defaults."""
    source = c.mount_tmpfs("source")
    shows(c, created(c, c.bundle().bind(source, "/tmp", "bind", "defaults")), "rw")


@table(
    ("relatime", "noatime", "relatime"),
    ("strictatime", "noatime", ""),
    ("norelatime", "", ""),
    ("nostrictatime", "", "relatime"),
    ids="CFG-MOPT-{0}",
)
def access_times_of_bind(c: Context, word: str, before: str, after: str) -> None:
    """The option {0} sets the access-time mode of a bind mount."""
    source = c.mount_tmpfs("source", *([before] if before else []))
    found = created(c, c.bundle().bind(source, "/tmp", "bind", word))
    shows_not(c, found, "noatime")
    if after:
        shows(c, found, after)
    elif word == "strictatime":
        shows_not(c, found, "relatime")


@table(
    ("relatime", ["relatime"], True),
    ("norelatime", ["relatime", "norelatime"], None),
    ("strictatime", ["strictatime"], False),
    ("nostrictatime", ["strictatime", "nostrictatime"], True),
    ids="CFG-MOPT-{0}",
)
def access_times_of_new(c: Context, _w: str, options: list[str], relative: bool | None) -> None:
    """The option {0}, given last, sets the access-time mode of a new filesystem."""
    found = fresh(c, *options)
    shows_not(c, found, "noatime")
    if relative is not None:
        c.equal("relatime" in found.options, relative, "relatime")


@case("CFG-MOPT-bind")
def bind(c: Context) -> None:
    """The option bind shows the host directory without its submounts."""
    source = c.mount_tmpfs("source")
    (source / "mark").touch()
    (c.mount_tmpfs("source/sub") / "mark").touch()
    facts = c.probe(c.bundle().bind(source, "/tmp", "bind"), "list=/tmp", "list=/tmp/sub")
    c.equal(sorted(facts["list"]["/tmp"]), ["mark", "sub"], "entries")
    c.equal(facts["list"]["/tmp/sub"], [], "entries below")


@case("CFG-MOPT-rbind")
def rbind(c: Context) -> None:
    """The option rbind shows submounts as well."""
    source = c.mount_tmpfs("source")
    (c.mount_tmpfs("source/sub") / "mark").touch()
    facts = c.probe(c.bundle().bind(source, "/tmp", "rbind"), "list=/tmp/sub")
    c.equal(facts["list"]["/tmp/sub"], ["mark"], "entries below")


@case("CFG-MOPT-bind")
def bind_writes_through(c: Context) -> None:
    """A file that the program writes to a bind mount appears in the source."""
    source = c.directory / "source"
    source.mkdir(mode=0o777)
    c.run(c.bundle("write /tmp/new text").bind(source, "/tmp", "bind", "rw"))
    c.expect((source / "new").exists(), "the file is not in the source")


def tried(c: Context, bundle: Bundle, *words: str) -> Sequence[str]:
    """Run the program with these actions; return the error of each."""
    bundle.does(*words)
    return [str(report["error"]) for report in c.run(bundle).reports]


@table(("ro", "EROFS"), ("rw", "ok"), ids="CFG-MOPT-{0}")
def writing(c: Context, word: str, wanted: str) -> None:
    """The option {0} determines whether new and bind-mounted filesystems are writable."""
    source = c.directory / "source"
    source.mkdir()
    bundle = c.bundle().mount("/tmp", "tmpfs", "tmpfs", word).bind(source, "/var", "bind", word)
    errors = tried(c, bundle, "try create /tmp/new", "try create /var/new")
    c.equal(errors, [wanted, wanted], "errors")


@case("CFG-MOPT-ro")
def ro_on_top_only(c: Context) -> None:
    """The option ro applies to the mount itself, not to submounts."""
    source = c.mount_tmpfs("source")
    c.mount_tmpfs("source/sub")
    bundle = c.bundle().bind(source, "/tmp", "rbind", "ro")
    errors = tried(c, bundle, "try create /tmp/new", "try create /tmp/sub/new")
    c.equal(errors, ["EROFS", "ok"], "errors on top and below")


@table(("noexec", "EACCES"), ("exec", "ok"), ids="CFG-MOPT-{0}")
def executing(c: Context, word: str, wanted: str) -> None:
    """The option {0} determines whether a program on the mount can be executed."""
    source = c.mount_tmpfs("source")
    (source / "probe").write_bytes(c.probe_program.read_bytes())
    (source / "probe").chmod(0o755)
    bundle = c.bundle().bind(source, "/tmp", "bind", word)
    c.equal(tried(c, bundle, "try exec /tmp/probe"), [wanted], "error")


@table(("nosymfollow", "ELOOP"), ("symfollow", "ok"), ids="CFG-MOPT-{0}")
def following(c: Context, word: str, wanted: str) -> None:
    """The option {0} determines whether a symbolic link on the mount can be followed."""
    need_option(c, word)
    source = c.directory / "source"
    source.mkdir()
    (source / "link").symlink_to("/etc/passwd")
    bundle = c.bundle().bind(source, "/tmp", "bind", word)
    facts = c.probe(bundle, "open=r:/tmp/link")
    c.equal(facts["open"]["r:/tmp/link"], wanted, "opening the link")


@table(("nodev", "EACCES"), ("dev", "ok"), ids="CFG-MOPT-{0}")
def devices(c: Context, word: str, wanted: str) -> None:
    """The option {0} determines whether a device on the mount can be opened."""
    c.mount_tmpfs("source")
    c.tool("mknod", "-m", "666", str(c.directory / "source/null"), "c", "1", "3")
    bundle = c.bundle().bind(c.directory / "source", "/tmp", "bind", word)
    facts = c.probe(bundle, "open=b:/tmp/null")
    c.equal(facts["open"]["b:/tmp/null"], wanted, "opening a copy of /dev/null")


@case("CFG-MOPT-remount")
def remount(c: Context) -> None:
    """The option remount changes the existing mount and does not add another."""
    bundle = c.bundle().mount("/tmp", "tmpfs", "tmpfs", "nosuid")
    bundle.mount("/tmp", "tmpfs", "tmpfs", "remount", "ro", "nosuid", "noexec")
    found = [one for one in c.create(bundle).mountinfo() if one.point == "/tmp"]
    c.equal(len(found), 1, "mounts on /tmp")
    shows(c, found[0], "ro", "nosuid", "noexec")


@table(("data", "size=64k", "size=32k"), ("flag", "async", "sync"), ids="CFG-MOPT-remount")
def remount_file_system(c: Context, _name: str, before: str, after: str) -> None:
    """The option remount changes filesystem options as well ({0})."""
    bundle = c.bundle().mount("/tmp", "tmpfs", "tmpfs", before)
    bundle.mount("/tmp", "tmpfs", "tmpfs", "remount", after)
    found = [one for one in c.create(bundle).mountinfo() if one.point == "/tmp"]
    c.equal(len(found), 1, "mounts on /tmp")
    shows(c, found[0], after)


@case("CFG-MOPT-remount", "CFG-MOPT-bind")
def remount_bind(c: Context) -> None:
    """The options bind and remount together change the flags of the existing mount."""
    source = c.mount_tmpfs("source")
    bundle = c.bundle().bind(source, "/tmp", "bind")
    bundle.bind(source, "/tmp", "bind", "remount", "noexec", "nodev")
    found = [one for one in c.create(bundle).mountinfo() if one.point == "/tmp"]
    c.equal(len(found), 1, "mounts on /tmp")
    shows(c, found[0], "noexec", "nodev", "rw")


@table(("content",), ("modes",), ("link",), ids="CFG-MOPT-tmpcopyup")
def copied_up(c: Context, what: str) -> None:
    """The option tmpcopyup, if supported, copies what the root filesystem has there ({0})."""
    bundle = c.bundle()
    place = bundle.rootfs / "var"
    (place / "below").mkdir(mode=0o750)
    (place / "below").chmod(0o750)
    (place / "below/file").write_text("content")
    (place / "link").symlink_to("below/file")
    asks = ("read=/var/below/file", "stat=/var/below", "stat=/var/link", "stat=/var")
    bundle.mount("/var", "tmpfs", "tmpfs", "tmpcopyup", "size=1m")
    bundle.args("/bin/probe", "facts", *asks)
    box, result = c.attempt_create(bundle)
    if not result.ok:
        box.deleted = True
        c.skip("the runtime does not offer it")
    box.start()
    facts = box.wait_for_reports()[0]
    c.equal(facts["stat"]["/var"]["filesystem"], 0x01021994, "file system (tmpfs)")
    shown = {
        "content": facts["read"]["/var/below/file"],
        "modes": facts["stat"]["/var/below"].get("mode"),
        "link": facts["stat"]["/var/link"].get("link"),
    }
    wanted = {"content": "content", "modes": 0o750, "link": "below/file"}
    c.equal(shown[what], wanted[what], what)
