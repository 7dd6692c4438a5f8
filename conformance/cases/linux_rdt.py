"""config-linux.md: Intel RDT."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

from conformance.bundle import Bundle
from conformance.case import case, table
from conformance.container import Container
from conformance.context import Context

RESCTRL = Path("/sys/fs/resctrl")


def with_rdt(c: Context, **rdt: Any) -> Bundle:
    """Return a bundle with ``rdt`` as ``intelRdt``; skip without root or resctrl."""
    c.need_root("needs resctrl to write to")
    if not c.host.resctrl:
        c.skip("resctrl is not mounted")
    bundle = c.bundle()
    bundle.linux["intelRdt"] = rdt
    return bundle


def lines(group: Path) -> dict[str, str]:
    """Return the ``schemata`` of a group, by resource: ``L3`` -> ``0=fff;1=fff``."""
    text = (group / "schemata").read_text()
    return {one.split(":")[0].strip(): one.split(":")[1].strip() for one in text.splitlines()}


def smaller(c: Context, resource: str) -> str:
    """Return a schema line for ``resource`` that differs from the root group's.

    Skip if the processor has no control of ``resource``.
    """
    found = lines(RESCTRL).get(resource) if c.host.resctrl else None
    if found is None:
        c.skip(f"the processor has no control of {resource}")
    domains = [domain.split("=") for domain in found.split(";")]
    if resource == "MB":
        return "MB:" + ";".join(f"{id.strip()}=50" for id, _ in domains)
    # The kernel wants neighbouring bits, at times at least two of them.
    return f"{resource}:" + ";".join(
        f"{id.strip()}={int(mask, 16) & int(mask, 16) >> 1:x}" for id, mask in domains
    )


def has_schema(group: Path, schema: str) -> bool:
    """Return whether the group has this schema, regardless of leading zeros."""
    resource, _, wanted = schema.partition(":")
    base = 10 if resource == "MB" else 16
    found = lines(group).get(resource, "")

    def values(text: str) -> dict[str, int]:
        pairs = (one.split("=") for one in text.split(";") if "=" in one)
        return {id.strip(): int(value, base) for id, value in pairs}

    return values(found) == values(wanted)


def members(group: Path) -> set[int]:
    """Return the IDs of the tasks in a group."""
    return {int(word) for word in (group / "tasks").read_text().split()}


def made(c: Context, name: str) -> Path:
    """Create a resctrl group on the host; skip if the kernel has no free group.

    At the end, it is removed with all others that have the case's token in their names.
    """
    group = RESCTRL / f"{c.token}-{name}"
    try:
        group.mkdir()
    except OSError as error:
        c.skip(f"no further group can be had: {error.strerror}")
    return group


def in_group(c: Context, box: Container, group: Path) -> None:
    """Require that the container's process is in ``group``."""
    c.expect(group.is_dir(), f"there is no group {group}")
    c.expect(box.pid in members(group), f"the process is not in {group}")


@case("LNX-RDT-01", exclusive=True)
def process_in_group(c: Context) -> None:
    """The process is in the group that closID names."""
    bundle = with_rdt(c)
    group = made(c, "group")
    bundle.linux["intelRdt"] = {"closID": group.name}
    in_group(c, c.create(bundle), group)
    group.rmdir()


@table(
    ("nothing", {}),
    ("closID", {"closID": "conformance"}),
    ("l3CacheSchema", {"l3CacheSchema": "L3:0=f"}),
    ("enableMonitoring", {"enableMonitoring": True}),
    ids="LNX-RDT-02",
)
def without_resctrl(c: Context, _name: str, rdt: Any) -> None:
    """Create fails if intelRdt has {0} and resctrl is not mounted."""
    c.need_root("needs a runtime that is allowed to use resctrl")
    if c.host.resctrl:
        c.skip("resctrl is mounted")
    bundle = c.bundle()
    bundle.linux["intelRdt"] = rdt
    c.create(c.bundle())
    c.refused(bundle, "intelRdt without resctrl")


@case("LNX-RDT-03", exclusive=True)
def without_rdt(c: Context) -> None:
    """A container without intelRdt is in the root group, and no group is created."""
    bundle = with_rdt(c)
    del bundle.linux["intelRdt"]
    before = {path.name for path in RESCTRL.iterdir()}
    box = c.create(bundle)
    c.equal({path.name for path in RESCTRL.iterdir()}, before, "entries of resctrl")
    c.expect(box.pid in members(RESCTRL), "the process is not in the root group")


@case("LNX-RDT-04", exclusive=True)
def root_group(c: Context) -> None:
    """If closID is /, the process is in the root group and no group is created."""
    bundle = with_rdt(c, closID="/")
    before = {path.name for path in RESCTRL.iterdir()}
    in_group(c, c.create(bundle), RESCTRL)
    c.equal({path.name for path in RESCTRL.iterdir()}, before, "entries of resctrl")


@table(
    ("LNX-RDT-05", "l3CacheSchema", "XX:0=1"),
    ("LNX-RDT-07", "memBwSchema", "XX:0=1"),
    exclusive=True,
)
def wrong_prefix(c: Context, member: str, text: str) -> None:
    """{0} with the wrong prefix is rejected."""
    resource = "L3" if member == "l3CacheSchema" else "MB"
    sound = with_rdt(c, **{member: smaller(c, resource)})
    c.refused_beside(sound, with_rdt(c, **{member: text}), f"{member} {text!r}")


@case("LNX-RDT-07", exclusive=True)
def cache_as_bandwidth(c: Context) -> None:
    """A memBwSchema that is a schema for the cache is rejected."""
    sound = with_rdt(c, memBwSchema=smaller(c, "MB"))
    c.refused_beside(sound, with_rdt(c, memBwSchema=smaller(c, "L3")), "memBwSchema with L3:")


@case("LNX-RDT-06", exclusive=True)
def two_lines_for_the_cache(c: Context) -> None:
    """An l3CacheSchema with two lines is rejected, or both lines are written."""
    first, second = smaller(c, "L3"), smaller(c, "MB")
    bundle = with_rdt(c, l3CacheSchema=f"{first}\n{second}")
    box, result = c.attempt_create(bundle)
    if not result.ok:
        box.deleted = True
        return
    group = RESCTRL / box.id
    c.expect(has_schema(group, first), f"not written: {first}")
    c.expect(has_schema(group, second), f"not written: {second}")


@case("LNX-RDT-08", exclusive=True)
def two_lines_for_bandwidth(c: Context) -> None:
    """A memBwSchema with two lines is rejected."""
    schema = smaller(c, "MB")
    bad = with_rdt(c, memBwSchema=f"{schema}\n{schema}")
    c.refused_beside(with_rdt(c, memBwSchema=schema), bad, "memBwSchema with two lines")


@case("LNX-RDT-09", exclusive=True)
def two_lines_in_schemata(c: Context) -> None:
    """An element of schemata with two lines is rejected."""
    schema = smaller(c, "L3")
    bad = with_rdt(c, schemata=[f"{schema}\n{schema}"])
    c.refused_beside(with_rdt(c, schemata=[schema]), bad, "an element with two lines")


@case("LNX-RDT-10", exclusive=True)
def cache_and_bandwidth(c: Context) -> None:
    """Both l3CacheSchema and memBwSchema are written.

    Their order makes no visible difference.
    """
    cache, bandwidth = smaller(c, "L3"), smaller(c, "MB")
    box = c.create(with_rdt(c, l3CacheSchema=cache, memBwSchema=bandwidth))
    c.expect(has_schema(RESCTRL / box.id, cache), f"not written: {cache}")
    c.expect(has_schema(RESCTRL / box.id, bandwidth), f"not written: {bandwidth}")


@table(("l3CacheSchema", "L3"), ("memBwSchema", "MB"), ids="LNX-RDT-11", exclusive=True)
def one_schema(c: Context, member: str, resource: str) -> None:
    """{0} is written if it is the only schema."""
    schema = smaller(c, resource)
    box = c.create(with_rdt(c, **{member: schema}))
    c.expect(has_schema(RESCTRL / box.id, schema), f"not written: {schema}")


@case("LNX-RDT-12", exclusive=True)
def schemata_last(c: Context) -> None:
    """The schemata property overrides l3CacheSchema."""
    schema = smaller(c, "L3")
    whole = f"L3:{lines(RESCTRL)['L3']}"
    box = c.create(with_rdt(c, l3CacheSchema=whole, schemata=[schema]))
    c.expect(has_schema(RESCTRL / box.id, schema), "l3CacheSchema was written after schemata")


@case("LNX-RDT-13", exclusive=True)
def no_schema(c: Context) -> None:
    """An existing group keeps its schemata if the config has no schema."""
    schema = smaller(c, "L3")
    group = made(c, "group")
    (group / "schemata").write_text(schema + "\n")
    c.create(with_rdt(c, closID=group.name))
    c.expect(has_schema(group, schema), "the group's schemata changed")
    group.rmdir()


@case("LNX-RDT-14", exclusive=True)
def group_of_container(c: Context) -> None:
    """If there is no closID, the process is in a new group named after the container's ID."""
    box = c.create(with_rdt(c))
    in_group(c, box, RESCTRL / box.id)


@case("LNX-RDT-15", exclusive=True)
def missing_group_with_schema(c: Context) -> None:
    """If closID names a missing group and there is a schema, the group is created."""
    name = f"{c.token}-group"
    schema = smaller(c, "L3")
    box = c.create(with_rdt(c, closID=name, l3CacheSchema=schema))
    in_group(c, box, RESCTRL / name)
    c.expect(has_schema(RESCTRL / name, schema), f"not written: {schema}")
    box.delete("--force")
    (RESCTRL / name).rmdir()


@table(("l3CacheSchema", "L3"), ("memBwSchema", "MB"), ids="LNX-RDT-16", exclusive=True)
def group_with_another_schema(c: Context, member: str, resource: str) -> None:
    """Create fails if {0} differs from that of an existing group; the group is unchanged."""
    schema = smaller(c, resource)
    group = made(c, "group")
    before = lines(group)
    c.refused(with_rdt(c, closID=group.name, **{member: schema}), "another schema")
    c.equal(lines(group), before, "schemata of the group")
    group.rmdir()


@case("LNX-RDT-16", exclusive=True)
def group_with_same_schema(c: Context) -> None:
    """A schema that equals that of the existing group is accepted."""
    schema = smaller(c, "L3")
    group = made(c, "group")
    (group / "schemata").write_text(schema + "\n")
    in_group(c, c.create(with_rdt(c, closID=group.name, l3CacheSchema=schema)), group)
    group.rmdir()


@case("LNX-RDT-17", exclusive=True)
def missing_group(c: Context) -> None:
    """If closID names a missing group and there is no schema, create fails.

    The group is not created.
    """
    name = f"{c.token}-group"
    c.refused(with_rdt(c, closID=name), "a group that does not exist")
    c.expect(not (RESCTRL / name).exists(), "the group was made")


@case("LNX-RDT-18", exclusive=True)
def group_goes(c: Context) -> None:
    """A group that was created for the container is removed with it."""
    box = c.create(with_rdt(c))
    c.expect((RESCTRL / box.id).is_dir(), "no group was made")
    box.delete("--force")
    c.expect(not (RESCTRL / box.id).exists(), "the group is still there")


@case("LNX-RDT-19", exclusive=True)
def group_stays(c: Context) -> None:
    """An existing group that closID names is kept when the container is deleted."""
    bundle = with_rdt(c)
    group = made(c, "group")
    bundle.linux["intelRdt"] = {"closID": group.name}
    c.create(bundle).delete("--force")
    c.expect(group.is_dir(), "the group is gone")
    group.rmdir()


def monitored(c: Context, group: Path) -> Container:
    """Create a container with monitoring in ``group``; skip without monitoring support."""
    bundle = with_rdt(c, closID=group.name, enableMonitoring=True)
    if not (group / "mon_groups").is_dir():
        c.skip("the processor has no monitoring")
    return c.create(bundle)


@case("LNX-RDT-20", exclusive=True)
def monitoring_group(c: Context) -> None:
    """A container with enableMonitoring is in a monitoring group named after its ID."""
    with_rdt(c)
    group = made(c, "group")
    box = monitored(c, group)
    in_group(c, box, group / "mon_groups" / box.id)
    group.rmdir()


@case("LNX-RDT-21", exclusive=True)
def monitoring_group_goes(c: Context) -> None:
    """The monitoring group is removed with the container."""
    with_rdt(c)
    group = made(c, "group")
    box = monitored(c, group)
    c.expect((group / "mon_groups" / box.id).is_dir(), "no monitoring group was made")
    box.delete("--force")
    c.expect(not (group / "mon_groups" / box.id).exists(), "the monitoring group is still there")
    group.rmdir()


@case("LNX-RDT-22", exclusive=True)
def no_monitoring_group(c: Context) -> None:
    """Create fails if the kernel has no free monitoring group."""
    with_rdt(c)
    group = made(c, "group")
    if not (group / "mon_groups").is_dir():
        c.skip("the processor has no monitoring")
    try:
        for number in range(100000):
            (group / "mon_groups" / str(number)).mkdir()
    except OSError as error:
        c.equal(error.errno, errno.ENOSPC, "why no further monitoring group can be had")
    bundle = with_rdt(c, closID=group.name, enableMonitoring=True)
    try:
        c.refused(bundle, "monitoring without a free monitoring group")
    finally:
        group.rmdir()
