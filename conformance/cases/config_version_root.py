"""config.md: specification version and root."""

from __future__ import annotations

import json

from conformance import mounts
from conformance.bundle import ABSENT
from conformance.case import case, table
from conformance.clauses import version_key
from conformance.context import Context

RELEASES = ("1.0.0", "1.0.1", "1.0.2", "1.1.0", "1.2.0", "1.2.1", "1.3.0")


@case("CFG-VER-01")
def no_version(c: Context) -> None:
    """A config without ociVersion is rejected."""
    c.refused(c.bundle(ociVersion=ABSENT), "no ociVersion")


@table(
    ("",),
    ("banana",),
    ("1",),
    ("1.0",),
    ("1.0.0.0",),
    ("v1.0.0",),
    ("01.0.0",),
    ("1.0.0-",),
    ("1.0.0-01",),
    ("1.0.0 ",),
    ("1.0.0+a+b",),
    ids="CFG-VER-02",
)
def no_semver(c: Context, version: str) -> None:
    """The ociVersion '{0}' is rejected."""
    c.refused(c.bundle(ociVersion=version), f"ociVersion {version!r}")


@case("CFG-VER-02")
def version_is_number(c: Context) -> None:
    """An ociVersion that is a number is rejected."""
    c.refused(c.bundle(ociVersion=1.0), "ociVersion 1.0, not a text")


@table(("1.0.2-dev",), ("1.0.2-rc.1",), ("1.0.2+build.7",), ("1.0.2-dev+0a",), ids="CFG-VER-02")
def semver(c: Context, version: str) -> None:
    """The ociVersion {0} is valid and accepted."""
    box = c.run(c.bundle("touch /out/ran", ociVersion=version))
    c.expect(box.file("/out/ran").exists(), "the program did not run")


@table(*((one,) for one in RELEASES), ids="CFG-VER-03")
def release(c: Context, version: str) -> None:
    """A config of version {0} runs on a runtime for that or a later minor version."""
    result = c.call("features")
    newest = str(result.json()["ociVersionMax"] if result.ok else c.create().state()["ociVersion"])
    if version_key(newest)[:2] < version_key(version)[:2]:
        c.skip(f"the runtime is for {newest}")
    box = c.run(c.bundle("touch /out/ran", ociVersion=version))
    c.expect(box.file("/out/ran").exists(), "the program did not run")


@case("CFG-VER-03")
def next_major(c: Context) -> None:
    """A config of another major version is rejected."""
    c.refused(c.bundle(ociVersion="99.0.0"), "ociVersion 99.0.0")


@case("CFG-ROOT-01")
def no_root(c: Context) -> None:
    """A config without root is rejected, even if the bundle has a rootfs directory."""
    c.refused(c.bundle(root=ABSENT), "no root")


@case("CFG-ROOT-02")
def no_root_path(c: Context) -> None:
    """A root without a path is rejected."""
    c.refused(c.bundle(root={"path": ABSENT}), "no root.path")


@case("CFG-ROOT-02")
def empty_root_path(c: Context) -> None:
    """An empty root.path is rejected."""
    c.refused(c.bundle(root={"path": ""}), "an empty root.path")


@table(("rootfs",), ("./rootfs",), ("other/../rootfs",), ids="CFG-ROOT-03")
def relative_root(c: Context, path: str) -> None:
    """A relative root.path ({0}) is resolved from the bundle, not the caller's directory."""
    bundle = c.bundle(root={"path": path})
    (bundle.path / "other").mkdir()
    (bundle.rootfs / "mark").write_text("bundle")
    elsewhere = c.bundle()
    (elsewhere.rootfs / "mark").write_text("caller")
    facts = c.probe(bundle, "read=/mark", cwd=elsewhere.path)
    c.equal(facts["read"]["/mark"], "bundle", "/mark")


@case("CFG-ROOT-03")
def relative_bundle(c: Context) -> None:
    """A relative root.path is resolved from the bundle, even if the bundle path is relative."""
    bundle = c.bundle()
    (bundle.rootfs / "mark").write_text("bundle")
    facts = c.probe(bundle, "read=/mark", cwd=c.directory, path=bundle.path.name)
    c.equal(facts["read"]["/mark"], "bundle", "/mark")


@case("CFG-ROOT-03", "BUNDLE-04")
def absolute_root(c: Context) -> None:
    """An absolute root.path is used unchanged, inside or outside the bundle."""
    bundle, other = c.bundle(), c.bundle()
    (bundle.rootfs / "mark").write_text("bundle")
    (other.rootfs / "mark").write_text("other")
    bundle.change(root={"path": str(other.rootfs)})
    facts = c.probe(bundle, "read=/mark")
    c.equal(facts["read"]["/mark"], "other", "/mark")


@case("CFG-ROOT-04")
def template_root(c: Context) -> None:
    """The config template that the runtime generates has rootfs as its root.path."""
    place = c.directory / "template"
    place.mkdir()
    result = c.call("spec", cwd=place)
    if not result.ok or not (place / "config.json").exists():
        c.skip("the runtime offers no template")
    config = json.loads((place / "config.json").read_text())
    c.equal(config["root"]["path"], "rootfs", "root.path")


@case("CFG-ROOT-05")
def root_missing(c: Context) -> None:
    """A root.path that does not exist is rejected, and is not created."""
    bundle = c.bundle(root={"path": "nowhere"})
    c.refused(bundle, "root.path nowhere")
    c.expect(not (bundle.path / "nowhere").exists(), "the runtime made the directory")


@case("CFG-ROOT-05")
def root_is_file(c: Context) -> None:
    """A root.path that is a file is rejected."""
    bundle = c.bundle(root={"path": "file"})
    (bundle.path / "file").write_text("no directory")
    c.refused(bundle, "root.path is a file")


@case("CFG-ROOT-06")
def readonly(c: Context) -> None:
    """A readonly root cannot be written to, and its mount is read-only."""
    bundle = c.bundle("try create /new", "try create /out/new", "sleep", root={"readonly": True})
    box = c.started(bundle)
    errors = [one["error"] for one in box.wait_for_reports(2)]
    c.equal(errors, ["EROFS", "EROFS"], "errors of writing")
    top = mounts.at("/", box.mountinfo())
    c.expect(top and "ro" in top.options, f"the root mount is {top}")


@case("CFG-ROOT-06")
def readonly_keeps_mounts(c: Context) -> None:
    """A readonly root leaves the mounts below it writable."""
    bundle = c.bundle("try create /tmp/new", root={"readonly": True})
    bundle.mount("/tmp", "tmpfs", "tmpfs")
    c.equal(c.run(bundle).reports[0]["error"], "ok", "error of writing to a tmpfs")


@case("CFG-ROOT-06")
def readonly_inside_only(c: Context) -> None:
    """A readonly root stays writable for the host and for other containers."""
    bundle = c.bundle(root={"readonly": True})
    c.create(bundle)
    (bundle.rootfs / "of-host").touch()
    other = c.bundle("try create /of-other", root={"path": str(bundle.rootfs)})
    c.equal(c.run(other).reports[0]["error"], "ok", "error of writing in the other container")


@table(("absent", ABSENT), ("false", False), ids="CFG-ROOT-06")
def writable(c: Context, _name: str, value: object) -> None:
    """If readonly is {0}, the root is writable."""
    bundle = c.bundle("try create /new", root={"readonly": value})
    box = c.run(bundle)
    c.equal(box.reports[0]["error"], "ok", "error of writing")
    c.expect(box.file("/new").exists(), "the new file is not in root.path")


@case("CFG-ROOT-06")
def readonly_needs_boolean(c: Context) -> None:
    """A readonly value that is a string is rejected."""
    c.refused(c.bundle(root={"readonly": "true"}), "readonly 'true', a text")
