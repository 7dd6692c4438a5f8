"""config.md: mount options for propagation, or for all mounts of a tree."""

from __future__ import annotations

from conformance import mounts
from conformance.case import case, table
from conformance.context import Context
from conformance.mounts import Mount

# Those that mount_setattr(2) can set, and what takes them away again; rrw is tried by writing.
RECURSIVE = {
    "rnoatime": "noatime",
    "rnodev": "nodev",
    "rnodiratime": "nodiratime",
    "rnoexec": "noexec",
    "rnosuid": "nosuid",
    "rnosymfollow": "nosymfollow",
    "rro": "ro",
}
CLEARING = {
    "ratime": "noatime",
    "rdev": "nodev",
    "rdiratime": "nodiratime",
    "rexec": "noexec",
    "rsuid": "nosuid",
    "rsymfollow": "nosymfollow",
}


def tree(c: Context, source: tuple[str, ...], *options: str) -> tuple[Mount, Mount]:
    """Bind-mount a mount with a submount; return both as they are in the container."""
    top = c.mount_tmpfs("tree", *source)
    c.mount_tmpfs("tree/sub", *source)
    found = c.create(c.bundle().bind(top, "/tmp", *options)).mountinfo()
    pair = mounts.at("/tmp", found), mounts.at("/tmp/sub", found)
    if pair[0] is None or pair[1] is None:
        c.fail("the mounts are not there")
    return pair[0], pair[1]


def recursive(c: Context, source: tuple[str, ...], word: str) -> tuple[Mount, Mount]:
    """Return what ``tree`` does, for an option that needs mount_setattr(2).

    Skip if the kernel is too old.
    """
    if "symfollow" in word:
        c.need_kernel(5, 14)
    c.need_kernel(5, 12)
    return tree(c, source, "rbind", word)


@table(*RECURSIVE.items(), ids="CFG-MOPT-{0}")
def sets_below(c: Context, word: str, flag: str) -> None:
    """The option {0} sets {1} on the mount and on its submounts."""
    for one in recursive(c, (), word):
        c.expect(flag in one.options, f"{one.point} is not {flag}")
    outside = mounts.at(str(c.directory / "tree/sub"), mounts.of())
    c.expect(outside and flag not in outside.options, f"the source below has become {flag}")


@table(*CLEARING.items(), ids="CFG-MOPT-{0}")
def clears_below(c: Context, word: str, flag: str) -> None:
    """The option {0} clears {1} on the mount and on its submounts."""
    for one in recursive(c, (flag,), word):
        c.expect(flag not in one.options, f"{one.point} is still {flag}")


@table(
    ("rrelatime", "noatime", True),
    ("rstrictatime", "noatime", False),
    ("rnostrictatime", "strictatime", True),
    ("rnorelatime", "", None),
    ids="CFG-MOPT-{0}",
)
def access_times_below(c: Context, word: str, before: str, relative: bool | None) -> None:
    """The option {0} sets the access-time mode of the mount and of its submounts."""
    for one in recursive(c, (before,) if before else (), word):
        c.expect("noatime" not in one.options, f"{one.point} is noatime")
        if relative is not None:
            c.equal("relatime" in one.options, relative, f"relatime on {one.point}")


@table(("rro", "EROFS"), ("rrw", "ok"), ids="CFG-MOPT-{0}")
def writing_below(c: Context, word: str, wanted: str) -> None:
    """The option {0} determines whether the mount and its submounts are writable."""
    c.need_kernel(5, 12)
    top = c.mount_tmpfs("tree")
    c.mount_tmpfs("tree/sub", *(["ro"] if word == "rrw" else []))
    bundle = c.bundle("try create /tmp/new", "try create /tmp/sub/new")
    box = c.run(bundle.bind(top, "/tmp", "rbind", word))
    c.equal([one["error"] for one in box.reports], [wanted, wanted], "errors on top and below")


@table(("rro", "ro"), ("rnoexec", "noexec"), ids="CFG-MOPT-{0}")
def recursive_alone(c: Context, word: str, flag: str) -> None:
    """The option {0} applies to a new filesystem too."""
    c.need_kernel(5, 12)
    box = c.create(c.bundle().mount("/tmp", "tmpfs", "tmpfs", word))
    found = mounts.at("/tmp", box.mountinfo())
    c.expect(found and flag in found.options, f"/tmp is not {flag}")


@table(
    ("shared", "private", {"shared"}),
    ("slave", "shared", {"master"}),
    ("private", "shared", set()),
    ("unbindable", "shared", {"unbindable"}),
    ids="CFG-MOPT-{0}",
)
def propagation(c: Context, word: str, source: str, wanted: set[str]) -> None:
    """The option {0} sets the propagation of a bind mount."""
    top = c.mount_tmpfs("tree", source)
    found = mounts.at("/tmp", c.create(c.bundle().bind(top, "/tmp", "bind", word)).mountinfo())
    c.expect(found, "no mount on /tmp")
    assert found is not None
    c.equal(found.propagation, wanted, "propagation")


@table(
    ("rshared", "private", {"shared"}),
    ("rslave", "shared", {"master"}),
    ("rprivate", "shared", set()),
    ("runbindable", "shared", {"unbindable"}),
    ids="CFG-MOPT-{0}",
)
def propagation_below(c: Context, word: str, source: str, wanted: set[str]) -> None:
    """The option {0} sets the propagation of the mount and of its submounts."""
    for one in tree(c, (source,), "rbind", word):
        c.equal(one.propagation, wanted, f"propagation of {one.point}")


@table(("shared",), ("unbindable",), ids="CFG-MOPT-{0}")
def propagation_on_top_only(c: Context, word: str) -> None:
    """The option {0} applies to the mount itself, not to submounts."""
    top, below = tree(c, ("private",), "rbind", word)
    c.equal(top.propagation, {word}, "propagation on top")
    c.expect(word not in below.propagation, f"the mount below is {word} as well")


@table(("shared",), ("unbindable",), ids="CFG-MOPT-{0}")
def propagation_of_new(c: Context, word: str) -> None:
    """The option {0} sets the propagation of a new filesystem."""
    box = c.create(c.bundle().mount("/tmp", "tmpfs", "tmpfs", word))
    found = mounts.at("/tmp", box.mountinfo())
    c.expect(found and found.propagation == {word}, f"the mount is {found}")


@table(
    ("slave", True), ("rslave", True), ("private", False), ("rprivate", False), ids="CFG-MOPT-{0}"
)
def host_mounts_later(c: Context, word: str, arrives: bool) -> None:
    """The option {0} determines whether later mounts in a shared source reach the container."""
    top = c.mount_tmpfs("tree", "shared")
    (top / "later").mkdir()
    box = c.create(c.bundle().bind(top, "/tmp", "rbind", word))
    c.mount_tmpfs("tree/later")
    found = mounts.at("/tmp/later", box.mountinfo())
    c.equal(found is not None, arrives, "whether the new mount is in the container")


@table(("shared",), ("rshared",), ids="CFG-MOPT-{0}")
def source_stays_private(c: Context, word: str) -> None:
    """The option {0} does not make the host's private source shared."""
    top = c.mount_tmpfs("tree", "private")
    c.create(c.bundle().bind(top, "/tmp", "rbind", word))
    outside = mounts.at(str(top), mounts.of())
    c.expect(outside and not outside.propagation, f"the source is {outside}")


@case("CFG-MOPT-unbindable")
def unbindable_cannot_be_bound(c: Context) -> None:
    """A program cannot bind-mount what was mounted with unbindable."""
    bundle = c.bundle("try mount /tmp /var none 4096").mount("/tmp", "tmpfs", "t", "unbindable")
    bundle.capabilities("CAP_SYS_ADMIN")
    c.equal(c.run(bundle).reports[0]["error"], "EINVAL", "error of binding it")
