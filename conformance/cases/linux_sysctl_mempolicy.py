"""config-linux.md: memory policy, sysctl."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conformance.bundle import Bundle
from conformance.case import case, table
from conformance.context import Context

STATIC_NODES, RELATIVE_NODES, NUMA_BALANCING = 1 << 15, 1 << 14, 1 << 13
BIND = {"mode": "MPOL_BIND", "nodes": "0"}


def with_policy(c: Context, policy: dict[str, Any]) -> Bundle:
    """Return a bundle with ``policy`` as ``memoryPolicy``; skip without NUMA support."""
    if 0 not in c.host.nodes or c.probe_on_host().json()["memory_policy"] is None:
        c.skip("the kernel has no NUMA policies")
    bundle = c.bundle()
    bundle.linux["memoryPolicy"] = policy
    return bundle


@table(("nothing", {}), ("nodes", {"nodes": "0"}), ids="LNX-MPOL-01")
def policy_without_mode(c: Context, name: str, policy: Any) -> None:
    """A memoryPolicy with {0} but no mode is rejected."""
    c.refused_beside(with_policy(c, BIND), with_policy(c, policy), f"{name} without a mode")


@table(
    ("MPOL_DEFAULT", None, 0, (4, 0)),
    ("MPOL_PREFERRED", "0", 1, (4, 0)),
    ("MPOL_BIND", "0", 2, (4, 0)),
    ("MPOL_INTERLEAVE", "0", 3, (4, 0)),
    ("MPOL_LOCAL", None, 4, (4, 0)),
    ("MPOL_PREFERRED_MANY", "0", 5, (5, 15)),
    ("MPOL_WEIGHTED_INTERLEAVE", "0", 6, (6, 9)),
    ids="LNX-MPOL-02",
)
def mode(c: Context, name: str, nodes: str | None, number: int, kernel: Any) -> None:
    """The program has the memory policy {0} with the given nodes."""
    c.need_kernel(*kernel)
    policy = {"mode": name} | ({"nodes": nodes} if nodes is not None else {})
    found = c.probe(with_policy(c, policy))["memory_policy"]
    c.equal(found["mode"], number, "mode")
    c.equal(found["nodes"], [] if nodes is None else [0], "nodes")


@table(
    ("MPOL_F_STATIC_NODES", STATIC_NODES),
    ("MPOL_F_RELATIVE_NODES", RELATIVE_NODES),
    ("MPOL_F_NUMA_BALANCING", NUMA_BALANCING),
    ids="LNX-MPOL-02",
)
def flag(c: Context, name: str, bit: int) -> None:
    """The program's memory policy has the flag {0}."""
    c.need_kernel(5, 12)
    found = c.probe(with_policy(c, BIND | {"flags": [name]}))["memory_policy"]
    c.equal((found["mode"], found["flags"]), (2, bit), "mode and flags")


@table(
    ("mode", {"mode": "MPOL_BOUND"}),
    ("mode as in numa(7)", {"mode": "bind"}),
    ("flag", {"flags": ["MPOL_F_ALL"]}),
    ("flag as a word", {"flags": "MPOL_F_STATIC_NODES"}),
    ("nodes as words", {"nodes": "first"}),
    ("nodes as a number", {"nodes": 0}),
    ("open range", {"nodes": "0-"}),
    ("falling range", {"nodes": "1-0"}),
    ("minus", {"nodes": "-1"}),
    ids="LNX-MPOL-02",
)
def bad_policy(c: Context, name: str, change: Any) -> None:
    """A memoryPolicy with an invalid value is rejected: {0}."""
    c.refused_beside(with_policy(c, BIND), with_policy(c, BIND | change), f"{name}: {change}")


@table(
    ("DEFAULT with nodes", {"mode": "MPOL_DEFAULT", "nodes": "0"}),
    ("LOCAL with nodes", {"mode": "MPOL_LOCAL", "nodes": "0"}),
    ("BIND without nodes", {"mode": "MPOL_BIND"}),
    ("INTERLEAVE without nodes", {"mode": "MPOL_INTERLEAVE"}),
    ("absent node", {"mode": "MPOL_BIND", "nodes": "1000"}),
    ("both flags", BIND | {"flags": ["MPOL_F_STATIC_NODES", "MPOL_F_RELATIVE_NODES"]}),
    ids="LNX-MPOL-03",
)
def impossible_policy(c: Context, name: str, policy: Any) -> None:
    """Create or start fails if the kernel rejects the memory policy: {0}."""
    bad = with_policy(c, policy)
    box, result = c.attempt_create(bad)
    box.deleted = not result.ok
    if result.ok:
        result = box.attempt("start")
    c.failed(result, name)
    sound = c.create(with_policy(c, BIND))
    sound.start()


@case("LNX-MPOL-03")
def preferred_without_nodes(c: Context) -> None:
    """The mode PREFERRED without nodes means the local node, like LOCAL."""
    found = c.probe(with_policy(c, {"mode": "MPOL_PREFERRED"}))["memory_policy"]
    c.expect(found["mode"] in (1, 4), f"mode {found['mode']}")
    c.equal(found["nodes"], [], "nodes")


# --- sysctl ---


def path_of(key: str) -> Path:
    """Return the path of a kernel parameter's file, for a key like ``net.ipv4.ip_forward``."""
    return Path("/proc/sys", *key.split("."))


def outside(key: str) -> str:
    """Return the value of a kernel parameter outside the container.

    Returns an empty string if it cannot be read.
    """
    try:
        return path_of(key).read_text().strip()
    except OSError:
        return ""


@table(
    ("net.ipv4.ip_forward", "1"),
    ("net.ipv4.ping_group_range", "0 0"),
    ("net.core.somaxconn", "321"),
    ("kernel.msgmax", "12345"),
    ("kernel.shmmax", "123456789"),
    ("kernel.sem", "32000 1024000000 500 321"),
    ("fs.mqueue.msg_max", "17"),
    ids="LNX-SYSCTL-01",
)
def parameter(c: Context, key: str, value: str) -> None:
    """{0} is set inside the container and unchanged outside."""
    before = outside(key)
    if not before:
        c.skip(f"the kernel has no {key}")
    bundle = c.bundle(linux={"sysctl": {key: value}})
    inside = str(path_of(key))
    found = c.probe(bundle, f"read={inside}")["read"][inside]
    c.expect(isinstance(found, str), f"cannot be read inside: {found!r}")
    c.equal(found.split(), value.split(), f"{key} inside")
    c.equal(outside(key), before, f"{key} outside")


@case("LNX-SYSCTL-01")
def several_parameters(c: Context) -> None:
    """If several kernel parameters are listed, all are set."""
    wanted = {"net.ipv4.ip_forward": "1", "kernel.msgmax": "12345", "kernel.msgmnb": "23456"}
    bundle = c.bundle(linux={"sysctl": wanted})
    found = c.probe(bundle, *(f"read={path_of(key)}" for key in wanted))["read"]
    values = {key: str(found[str(path_of(key))]).strip() for key in wanted}
    c.equal(values, wanted, "parameters inside")


def set_or_refused(c: Context, bundle: Bundle, key: str, value: str) -> None:
    """Require that create fails or sets the value.

    The specification says no more about parameters shared with the host.
    """
    box, result = c.attempt_create(bundle)
    if not result.ok:
        box.deleted = True
        return
    c.equal(outside(key), value, f"{key}, accepted and shared with the host")


@table(
    ("network", "net.ipv4.ip_forward", "1"),
    ("ipc", "kernel.msgmax", "12345"),
    ("ipc mqueue", "fs.mqueue.msg_max", "17"),
    ids="LNX-SYSCTL-01",
)
def parameter_of_the_host(c: Context, kind: str, key: str, value: str) -> None:
    """A parameter of a namespace shared with the host is either rejected or set: {0}."""
    bundle = c.bundle(linux={"sysctl": {key: value}})
    bundle.without_namespace(kind.split(maxsplit=1)[0])
    before = outside(key)
    c.create(c.bundle().without_namespace(kind.split(maxsplit=1)[0]))
    try:
        set_or_refused(c, bundle, key, value)
    finally:
        path_of(key).write_text(before)


@table(
    ("vm.overcommit_memory",),
    ("kernel.pid_max",),
    ("kernel.core_pattern",),
    ("fs.file-max",),
    ids="LNX-SYSCTL-01",
)
def parameter_without_namespace(c: Context, key: str) -> None:
    """{0}, which is not namespaced, is either rejected or set."""
    # The present value: nothing is lost where the runtime sets it.
    set_or_refused(c, c.bundle(linux={"sysctl": {key: outside(key)}}), key, outside(key))


@table(
    ("unknown key", "net.ipv4.nosuchthing", "1"),
    ("bad value", "net.ipv4.ip_forward", "yes please"),
    ids="RT-CREATE-07",
)
def impossible_parameter(c: Context, name: str, key: str, value: object) -> None:
    """Create fails if a kernel parameter cannot be set: {0}."""
    bad = c.bundle(linux={"sysctl": {key: value}})
    c.refused_beside(c.bundle(linux={"sysctl": {"net.ipv4.ip_forward": "1"}}), bad, name)
