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
    """One range from id 0 on."""
    return [{"containerID": 0, "hostID": host, "size": size}]


def owned_tree(c: Context) -> str:
    """A tmpfs and one below it, with a file ``file`` of root in each."""
    c.need_kernel(*KERNEL)
    for place in (c.mount_tmpfs("tree"), c.mount_tmpfs("tree/sub")):
        (place / "file").touch()
    return str(c.directory / "tree")


def bound(c: Context, *options: str, host: int | None = None) -> Bundle:
    """A bundle with the tree bound to /tmp; ``host``: with mappings to ids from there on."""
    bundle = c.bundle().bind(owned_tree(c), "/tmp", *options)
    if host is not None:
        bundle.mounts[-1].update(uidMappings=mapping(host), gidMappings=mapping(host))
    return bundle


def owners(c: Context, bundle: Bundle, *paths: str) -> list[object]:
    """Pairs of user and group that the program sees."""
    facts = c.probe(bundle, *(f"stat={path}" for path in paths))
    return [(facts["stat"][path].get("uid"), facts["stat"][path].get("gid")) for path in paths]


@case("CFG-MIDMAP-01", "CFG-MOPT-idmap")
def mapped_owner(c: Context) -> None:
    """A file has the mapped owner in the mount."""
    bundle = bound(c, "bind", "idmap", host=1000)
    c.equal(owners(c, bundle, "/tmp/file"), [(1000, 1000)], "owner of a file of root")


@case("CFG-MIDMAP-01", "CFG-MOPT-idmap")
def source_keeps_owner(c: Context) -> None:
    """The mapping is one of the mount: outside the file has the owner that it had."""
    bundle = bound(c, "bind", "idmap", host=1000)
    c.equal(owners(c, bundle, "/tmp/file"), [(1000, 1000)], "owner of a file of root")
    outside = os.stat(c.directory / "tree/file")
    c.equal((outside.st_uid, outside.st_gid), (0, 0), "owner outside")


@case("CFG-MIDMAP-01", "CFG-MOPT-idmap")
def new_file_is_mapped_back(c: Context) -> None:
    """A file made in the mount by a mapped user is owned by the unmapped one outside."""
    bundle = bound(c, "bind", "idmap", host=1000).does("touch /tmp/new")
    os.chmod(c.directory / "tree", 0o777)
    bundle.process["user"] = {"uid": 1005, "gid": 1006}
    c.run(bundle)
    new = c.directory / "tree/new"
    c.expect(new.exists(), "the program could not make a file")
    c.equal((new.stat().st_uid, new.stat().st_gid), (5, 6), "owner outside")


@case("CFG-MIDMAP-02")
def mapping_without_option(c: Context) -> None:
    """Mappings without the option idmap are not silently ignored."""
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
    """A mount with nothing but {0} is refused."""
    bundle = bound(c, "bind", "idmap")
    bundle.mounts[-1][member] = mapping(1000)
    c.refused_beside(bound(c, "bind", "idmap", host=1000), bundle, f"{member} alone")


@case("CFG-MIDMAP-04", "CFG-MOPT-idmap")
def mapping_of_mount_wins(c: Context) -> None:
    """Mappings of the mount are used, not those of the container's user namespace."""
    bundle = bound(c, "bind", "idmap", host=100500).user_namespace(100000)
    c.equal(owners(c, bundle, "/tmp/file"), [(500, 500)], "owner of a file of root")


@table(("idmap", "bind"), ("ridmap", "rbind"), ids="CFG-MIDMAP-05")
def mapping_of_container(c: Context, word: str, bind: str) -> None:
    """{0} without mappings takes those of the container's user namespace, or is refused."""
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
    """{0} without mappings and without a user namespace is refused."""
    c.refused_beside(bound(c, bind, word, host=1000), bound(c, bind, word), f"{word} unmapped")


@table(("idmap", "bind"), ("ridmap", "rbind"), ids="CFG-MIDMAP-07")
def word_not_passed_on(c: Context, word: str, bind: str) -> None:
    """The word {0} is in no call that makes a mount."""
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
    """Ridmap maps the mounts below as well."""
    bundle = bound(c, "rbind", "ridmap", host=1000)
    shown = owners(c, bundle, "/tmp/file", "/tmp/sub/file")
    c.equal(shown, [(1000, 1000), (1000, 1000)], "owners on top and below")


@case("CFG-MIDMAP-08", "CFG-MOPT-idmap")
def below_with_idmap(c: Context) -> None:
    """Idmap leaves the mounts below alone."""
    bundle = bound(c, "rbind", "idmap", host=1000)
    shown = owners(c, bundle, "/tmp/file", "/tmp/sub/file")
    c.equal(shown, [(1000, 1000), (0, 0)], "owners on top and below")
