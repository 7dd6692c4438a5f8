"""config.md: id-mapped mounts, and the options idmap and ridmap."""

from __future__ import annotations

import os
from dataclasses import replace

from conformance.bundle import Bundle, Json
from conformance.case import case, table
from conformance.context import Context

# tmpfs, which every host has, can be id-mapped since then.
KERNEL = (6, 3)


def mapping(host: int, size: int = 1000) -> list[Json]:
    """Return a list with one ID mapping, which starts at container ID 0."""
    return [{"containerID": 0, "hostID": host, "size": size}]


def owned_tree(c: Context) -> str:
    """Mount a tmpfs with another one below it, each with a ``file`` owned by root.

    Return the path of the upper one.
    """
    c.need_kernel(*KERNEL)
    for place in (c.mount_tmpfs("tree"), c.mount_tmpfs("tree/sub")):
        (place / "file").touch()
    return str(c.directory / "tree")


def bound(c: Context, *options: str, host: int | None = None) -> Bundle:
    """Return a bundle that bind-mounts the tree on /tmp.

    With ``host``, the mount has mappings to the IDs that start there.
    """
    bundle = c.bundle().bind(owned_tree(c), "/tmp", *options)
    if host is not None:
        bundle.mounts[-1].update(uidMappings=mapping(host), gidMappings=mapping(host))
    return bundle


def owners(c: Context, bundle: Bundle, *paths: str) -> list[object]:
    """Return the owner and group of each path, as the program sees them."""
    facts = c.probe(bundle, *(f"stat={path}" for path in paths))
    return [(facts["stat"][path].get("uid"), facts["stat"][path].get("gid")) for path in paths]


@case("CFG-MIDMAP-01", "CFG-MOPT-idmap")
def mapped_owner(c: Context) -> None:
    """A file in an id-mapped mount has the mapped owner."""
    bundle = bound(c, "bind", "idmap", host=1000)
    c.equal(owners(c, bundle, "/tmp/file"), [(1000, 1000)], "owner of a file of root")


@case("CFG-MIDMAP-01", "CFG-MOPT-idmap")
def source_keeps_owner(c: Context) -> None:
    """An id-mapped mount does not change a file's owner outside of the mount."""
    bundle = bound(c, "bind", "idmap", host=1000)
    c.equal(owners(c, bundle, "/tmp/file"), [(1000, 1000)], "owner of a file of root")
    outside = os.stat(c.directory / "tree/file")
    c.equal((outside.st_uid, outside.st_gid), (0, 0), "owner outside")


@case("CFG-MIDMAP-01", "CFG-MOPT-idmap")
def new_file_is_mapped_back(c: Context) -> None:
    """A file that a mapped user creates in the mount has the unmapped owner outside."""
    bundle = bound(c, "bind", "idmap", host=1000).does("touch /tmp/new")
    os.chmod(c.directory / "tree", 0o777)
    bundle.process["user"] = {"uid": 1005, "gid": 1006}
    c.run(bundle)
    new = c.directory / "tree/new"
    c.expect(new.exists(), "the program could not make a file")
    c.equal((new.stat().st_uid, new.stat().st_gid), (5, 6), "owner outside")


@case("CFG-MIDMAP-02")
def mapping_without_option(c: Context) -> None:
    """Mappings without the option idmap are applied or rejected, not silently ignored."""
    bundle = bound(c, "bind", host=1000)
    bundle.args("/bin/probe", "facts", "stat=/tmp/file")
    box, result = c.attempt_create(bundle)
    if not result.ok:
        box.deleted = True
        return
    box.start()
    facts = box.wait_for_reports()[0]
    c.equal(facts["stat"]["/tmp/file"]["uid"], 1000, "owner of a file of root")


@table(("uidMappings",), ("gidMappings",), ids="CFG-MIDMAP-03")
def one_mapping_alone(c: Context, member: str) -> None:
    """A mount with only {0} is rejected."""
    bundle = bound(c, "bind", "idmap")
    bundle.mounts[-1][member] = mapping(1000)
    c.refused_beside(bound(c, "bind", "idmap", host=1000), bundle, f"{member} alone")


@case("CFG-MIDMAP-04", "CFG-MOPT-idmap")
def mapping_of_mount_wins(c: Context) -> None:
    """A mount's own mappings are used instead of the container's user namespace's."""
    bundle = bound(c, "bind", "idmap", host=100500).user_namespace(100000)
    c.equal(owners(c, bundle, "/tmp/file"), [(500, 500)], "owner of a file of root")


@table(("idmap", "bind"), ("ridmap", "rbind"), ids="CFG-MIDMAP-05")
def mapping_of_container(c: Context, word: str, bind: str) -> None:
    """Without mappings, {0} uses those of the container's user namespace or is rejected."""
    bundle = bound(c, bind, word).user_namespace(100000)
    bundle.args("/bin/probe", "facts", "stat=/tmp/file")
    box, result = c.attempt_create(bundle)
    if not result.ok:
        box.deleted = True
        return
    box.start()
    facts = box.wait_for_reports()[0]
    c.equal(facts["stat"]["/tmp/file"]["uid"], 0, "owner of a file of root")


@table(("idmap", "bind"), ("ridmap", "rbind"), ids="CFG-MIDMAP-06")
def nothing_to_map(c: Context, word: str, bind: str) -> None:
    """The option {0} without mappings and without a user namespace is rejected."""
    c.refused_beside(bound(c, bind, word, host=1000), bound(c, bind, word), f"{word} unmapped")


@table(("idmap", "bind"), ("ridmap", "rbind"), ids="CFG-MIDMAP-07")
def word_not_passed_on(c: Context, word: str, bind: str) -> None:
    """The option {0} is not passed on to mount(2) or fsconfig(2)."""
    bundle = bound(c, bind, word, host=1000)
    c.tool("strace", "-o", "/dev/null", "true")
    trace = c.directory / "trace"
    wrapper = c.directory / "traced"
    calls = "trace=mount,fsconfig"
    wrapper.write_text(
        f'#!/bin/sh\nexec strace -D -f -e {calls} -o {trace} {c.runtime.path} "$@"\n'
    )
    wrapper.chmod(0o755)
    plain, c.runtime = c.runtime, replace(c.runtime, path=wrapper)
    box = c.create(bundle)
    c.runtime = plain
    box.kill("KILL")
    box.wait()
    text = trace.read_text()
    c.expect("mount" in text or "fsconfig" in text, "no call was seen")
    passed = [line for line in text.splitlines() if f'"{word}' in line or f",{word}" in line]
    c.equal(passed, [], "calls with the word")


@case("CFG-MIDMAP-08", "CFG-MOPT-ridmap")
def below_with_ridmap(c: Context) -> None:
    """The option ridmap maps submounts as well."""
    bundle = bound(c, "rbind", "ridmap", host=1000)
    shown = owners(c, bundle, "/tmp/file", "/tmp/sub/file")
    c.equal(shown, [(1000, 1000), (1000, 1000)], "owners on top and below")


@case("CFG-MIDMAP-08", "CFG-MOPT-idmap")
def below_with_idmap(c: Context) -> None:
    """The option idmap leaves submounts unmapped."""
    bundle = bound(c, "rbind", "idmap", host=1000)
    shown = owners(c, bundle, "/tmp/file", "/tmp/sub/file")
    c.equal(shown, [(1000, 1000), (0, 0)], "owners on top and below")
