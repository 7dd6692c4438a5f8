"""config-linux.md: memory settings of cgroups."""

from __future__ import annotations

import json
import signal
from typing import Any

from conformance import cgroups
from conformance.case import case, table
from conformance.container import Container
from conformance.context import Context

MIB = 1 << 20
SWAP_FILE = "memory.memsw.limit_in_bytes"


def limited(c: Context, **memory: Any) -> Container:
    """Create a container with these members of ``memory``."""
    c.need_controller("memory")
    bundle = c.bundle()
    bundle.resources["memory"] = memory
    return c.create(bundle)


def need_swap_files(c: Context) -> None:
    """Skip on cgroup v1 if the kernel has no swap accounting."""
    if cgroups.version_of("memory") == 1:
        c.need_v1("memory", SWAP_FILE)


@table(
    ("limit", {}, "memory.limit_in_bytes", "memory.max"),
    ("reservation", {}, "memory.soft_limit_in_bytes", "memory.low"),
    ids="LNX-MEM-01",
)
def memory_value(c: Context, name: str, more: Any, v1: str, v2: str) -> None:
    """The memory {0} is set in bytes."""
    box = limited(c, **{name: 64 * MIB}, **more)
    c.equal(box.cgroup_file("memory", v1, v2), str(64 * MIB), name)


@case("LNX-MEM-01")
def swap(c: Context) -> None:
    """The swap limit covers memory plus swap; on cgroup v2 it is converted to swap alone."""
    need_swap_files(c)
    box = limited(c, limit=64 * MIB, swap=96 * MIB)
    found = box.cgroup_file("memory", SWAP_FILE, "memory.swap.max")
    wanted = 96 * MIB if cgroups.version_of("memory") == 1 else 32 * MIB
    c.equal(found, str(wanted), "limit of swap")


@table(
    ("limit", {"limit": -1}, "memory.limit_in_bytes", "memory.max"),
    ("reservation", {"reservation": -1}, "memory.soft_limit_in_bytes", "memory.low"),
    ("swap", {"limit": 64 * MIB, "swap": -1}, SWAP_FILE, "memory.swap.max"),
    ids="LNX-MEM-01",
)
def unlimited(c: Context, name: str, memory: Any, v1: str, v2: str) -> None:
    """A memory {0} of -1 means no limit."""
    if name == "swap":
        need_swap_files(c)
    if name == "reservation":
        c.need_v1("memory", v1)  # memory.low of v2 is a protection, not a limit
    expect_no_limit(c, limited(c, **memory).cgroup_file("memory", v1, v2))


@table(
    ("limit", {"limit": -1}, "memory.limit_in_bytes", "memory.max"),
    ("reservation", {"reservation": -1}, "memory.soft_limit_in_bytes", "memory.low"),
    ids="LNX-MEM-01",
)
def unlimited_again(c: Context, name: str, memory: Any, v1: str, v2: str) -> None:
    """A memory {0} of -1 removes an existing limit of the cgroup, instead of keeping it."""
    c.need_controller("memory")
    if name == "reservation":
        c.need_v1("memory", v1)
    path = c.make_cgroups("limited")
    point = next(one.point for one in cgroups.hierarchies() if "memory" in one.controllers)
    file = point / path[1:] / (v1 if cgroups.version_of("memory") == 1 else v2)
    file.write_text(str(64 * MIB))
    bundle = c.bundle()
    bundle.linux["cgroupsPath"] = path
    bundle.resources["memory"] = memory
    box, result = c.attempt_create(bundle)
    if not result.ok:
        box.deleted = True
        c.skip("the runtime takes no cgroup that exists")
    expect_no_limit(c, file.read_text().strip())


def expect_no_limit(c: Context, found: str) -> None:
    """Require that the content of a control file means no limit."""
    c.expect(found == "max" or int(found) > 1 << 60, f"the limit is {found}")


@case("LNX-MEM-01")
def memory_limit_holds(c: Context) -> None:
    """A program that exceeds the memory limit is OOM-killed."""
    c.need_controller("memory")
    bundle = c.bundle(f"eat {512 * MIB}", "exit 7")
    bundle.resources["memory"] = {"limit": 32 * MIB}
    if cgroups.version_of("memory") == 2 or cgroups.has_file("memory", SWAP_FILE, c.token):
        bundle.resources["memory"]["swap"] = 32 * MIB
    c.equal(c.run(bundle).exit_status, -signal.SIGKILL, "end of the program")


@table(
    ("kernel", "memory.kmem.limit_in_bytes"),
    ("kernelTCP", "memory.kmem.tcp.limit_in_bytes"),
    ids="LNX-MEM-02",
)
def kernel_memory(c: Context, name: str, file: str) -> None:
    """The memory limit {0} is set, rejected, or ignored with a warning."""
    c.need_v1("memory", file)
    path = c.make_cgroups("try")
    point = next(one.point for one in cgroups.hierarchies() if "memory" in one.controllers)
    try:
        (point / path[1:] / file).write_text(str(64 * MIB))
    except OSError as error:
        c.skip(f"the kernel takes no {file}: {error.strerror}")
    if (point / path[1:] / file).read_text().strip() != str(64 * MIB):
        c.skip(f"the kernel ignores {file}")
    bundle = c.bundle()
    bundle.resources["memory"] = {name: 64 * MIB}
    box, result = c.attempt_create(bundle)
    if not result.ok:
        box.deleted = True
    elif "warn" not in result.err or "ernel" not in result.err:
        c.equal(box.cgroup_file("memory", file, ""), str(64 * MIB), name)


@table((0,), (17,), (100,), ids="LNX-MEM-03")
def swappiness(c: Context, value: int) -> None:
    """A swappiness of {0} is set."""
    c.need_v1("memory", "memory.swappiness")
    box = limited(c, swappiness=value)
    c.equal(box.cgroup_file("memory", "memory.swappiness", ""), str(value), "memory.swappiness")


@table((101,), (-1,), (1 << 40,), ids="LNX-MEM-03")
def bad_swappiness(c: Context, value: int) -> None:
    """A swappiness of {0} is rejected."""
    sound, bad = c.bundle(), c.bundle()
    sound.resources["memory"] = {"swappiness": 100}
    bad.resources["memory"] = {"swappiness": value}
    c.refused_beside(sound, bad, f"swappiness {value}")


@table((True, "1"), (False, "0"), ids="LNX-MEM-04")
def oom_killer(c: Context, disable: bool, value: str) -> None:
    """The cgroup's oom_kill_disable matches a disableOOMKiller of {0}."""
    c.need_v1("memory", "memory.oom_control")
    text = limited(c, disableOOMKiller=disable).cgroup_file("memory", "memory.oom_control", "")
    found = dict(line.split() for line in text.splitlines())
    c.equal(found.get("oom_kill_disable"), value, "oom_kill_disable")


@table((True, "1"), (False, "0"), ids="LNX-MEM-05")
def hierarchical(c: Context, use: bool, value: str) -> None:
    """A useHierarchy of {0} is set, or rejected if the kernel does not support it."""
    c.need_v1("memory", "memory.use_hierarchy")
    bundle = c.bundle()
    bundle.resources["memory"] = {"useHierarchy": use}
    box, result = c.attempt_create(bundle)
    if result.ok:
        found = box.cgroup_file("memory", "memory.use_hierarchy", "")
        c.equal(found, value, "memory.use_hierarchy")
        return
    box.deleted = True
    c.expect(not use, f"refused: {result.complaint}")


@case("LNX-MEM-06")
def check_before_update(c: Context) -> None:
    """A limit below the current usage is rejected if checkBeforeUpdate is set.

    The container keeps running.
    """
    c.need_controller("memory")
    bundle = c.bundle(f"eat {64 * MIB}", "touch /out/full", "sleep")
    bundle.resources["memory"] = {"limit": 256 * MIB, "checkBeforeUpdate": True}
    box = c.started(bundle)
    c.until(box.file("/out/full").exists, "the program could not use memory below its limit")

    def update(limit: int) -> bool:
        file = c.directory / f"{limit}.json"
        file.write_text(json.dumps({"memory": {"limit": limit, "checkBeforeUpdate": True}}))
        return box.attempt("update", f"--resources={file}").ok

    if not update(128 * MIB):
        c.skip("the runtime cannot change resources later")
    c.expect(not update(16 * MIB), "a limit below the usage was taken")
    c.equal(box.status, "running", "status after the refusal")
