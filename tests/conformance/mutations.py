"""Ways to break a plan, each with the clause whose cases must detect it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from ociruntime.runtime.plan import operation_table as ops
from ociruntime.runtime.plan.plan import Operation, Plan

if TYPE_CHECKING:
    from ociruntime.runtime.plan.plan import Value

CODES = {name: code for code, (name, _, _) in enumerate(ops.OPERATIONS, 1)}
FIELDS = {name: [field[0] for field in fields] for name, _, fields in ops.OPERATIONS}
RDONLY, NOSUID, NODEV, NOEXEC, NOATIME, NOSYMFOLLOW = 1, 2, 4, 8, 0x10, 0x200000
NEWNS, NEWUTS, NEWIPC, NEWPID, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x20000000, 0x40000000
PRIVATE_RECURSIVE = 1 << 18 | 0x4000

Change = Callable[[Plan], None]


def is_one(operation: Operation, name: str, wanted: dict[str, object]) -> bool:
    """Return whether ``operation`` has that name and these values.

    A string value matches if it is a part of the operation's value.
    """
    if operation.code != CODES[name]:
        return False
    for key, value in wanted.items():
        found = operation.where if key == "where" else value_of(operation, name, key)
        within = isinstance(value, str) and isinstance(found, str) and value in found
        if found != value and not within:
            return False
    return True


def value_of(operation: Operation, name: str, field: str) -> object:
    return operation.values[FIELDS[name].index(field)]


def drop(name: str, **wanted: object) -> Change:
    def change(plan: Plan) -> None:
        plan.operations = [one for one in plan.operations if not is_one(one, name, wanted)]

    return change


def alter(name: str, field: str, value: object, **wanted: object) -> Change:
    """Return a mutation that sets ``value``: the new value, or a function of the old one."""

    def change(plan: Plan) -> None:
        place = FIELDS[name].index(field)
        for one in plan.operations:
            if is_one(one, name, wanted):
                values: list[Value] = list(one.values)
                values[place] = cast("Value", value(values[place]) if callable(value) else value)
                one.values = tuple(values)

    return change


def without(bit: int) -> Callable[[int], int]:
    return lambda old: old & ~bit


def plus(number: int) -> Callable[[int], int]:
    return lambda old: old + number


def reverse(name: str, **wanted: object) -> Change:
    def change(plan: Plan) -> None:
        places = [n for n, one in enumerate(plan.operations) if is_one(one, name, wanted)]
        found = [plan.operations[n] for n in places]
        for place, one in zip(places, reversed(found), strict=True):
            plan.operations[place] = one

    return change


def move(name: str, target: str, *, behind: bool = False, **wanted: object) -> Change:
    """Return a mutation that moves operations before the first ``target``, or behind it."""

    def change(plan: Plan) -> None:
        moved = [one for one in plan.operations if is_one(one, name, wanted)]
        rest = [one for one in plan.operations if not is_one(one, name, wanted)]
        places = [n for n, one in enumerate(rest) if is_one(one, target, {})]
        if moved and places:
            place = places[0] + behind
            plan.operations = rest[:place] + moved + rest[place:]

    return change


def shared_namespace(flag: int) -> Change:
    """Forget to make a namespace."""

    def change(plan: Plan) -> None:
        plan.clone_flags &= ~flag
        alter("clone_init", "flags", without(flag))(plan)

    return change


def nothing(_: Plan) -> None:
    """Change nothing."""


@dataclass(frozen=True)
class Mutation:
    """A defect of the plan.

    ``case`` is a part of the path of the cases to run; ``deadly``: no container works with it.
    """

    name: str
    change: Change
    clause: str
    case: str = ""
    deadly: bool = False


M = Mutation
ROWS = (
    M("hostname dropped", drop("hostname"), "CFG-HOST-01"),
    M("hostname changed", alter("hostname", "name", "other"), "CFG-HOST-01"),
    M("domainname dropped", drop("domainname"), "CFG-HOST-02"),
    M("soft limit changed", alter("rlimit", "soft", lambda old: old - 1), "CFG-RLIM-04"),
    M("hard limit changed", alter("rlimit", "hard", plus(1)), "CFG-RLIM-05"),
    M("limits dropped", drop("rlimit"), "CFG-RLIM-03"),
    M("umask changed", alter("umask", "mask", 0o11), "CFG-USER-03"),
    M("umask dropped", drop("umask"), "CFG-USER-03"),
    M("groups dropped", alter("user", "groups", []), "CFG-USER-04"),
    M("uid changed", alter("user", "uid", plus(1)), "CFG-USER-02"),
    M("gid changed", alter("user", "gid", plus(1)), "CFG-USER-02"),
    M("inheritable set empty", alter("capabilities", "inheritable", 0), "CFG-CAP-03"),
    M("ambient set empty", alter("capabilities", "ambient", 0), "CFG-CAP-03"),
    M("bounding set kept", drop("bounding"), "CFG-CAP-03"),
    M("bounding set larger", alter("bounding", "keep", lambda old: old | 2), "CFG-CAP-03"),
    M("new privileges kept", drop("no_new_privs"), "CFG-NNP-01"),
    M("working directory dropped", drop("chdir"), "CFG-PROC-05"),
    M("environment empty", alter("exec", "env", []), "CFG-PROC-07"),
    M("arguments lost", alter("exec", "args", lambda old: old[:1]), "CFG-PROC-08", deadly=True),
    M("PATH ignored", alter("find_executable", "path", "/nowhere"), "CFG-PROC-09"),
    M("terminal dropped", drop("console"), "CFG-PROC-02"),
    M("score adjustment dropped", drop("write_proc", path="oom_score_adj"), "CFG-OOM-01"),
    M("scheduler dropped", drop("scheduler"), "CFG-SCHED-02"),
    M("nice value changed", alter("scheduler", "nice", plus(-1)), "CFG-SCHED-02"),
    M("I/O priority dropped", drop("io_priority"), "CFG-IOP-02"),
    M("personality dropped", drop("personality"), "LNX-PERS-01"),
    M("memory policy dropped", drop("memory_policy"), "LNX-MPOL-02"),
    M("root stays writable", drop("set_attributes", where="root.readonly"), "CFG-ROOT-06"),
    M("mask dropped", drop("mask"), "LNX-MASK-02"),
    M("read-only paths dropped", drop("readonly"), "LNX-RO-02"),
    M("default device dropped", drop("device", target="/dev/full"), "LNX-DEFDEV-01", "[full]"),
    M("default device's number", alter("device", "minor", plus(1), major=1), "LNX-DEFDEV-01"),
    M("devices dropped", drop("device", where="linux.devices"), "LNX-DEV-01"),
    M("device mode", alter("device", "mode", without(0o66)), "LNX-DEV-06"),
    M("device owner", alter("device", "uid", plus(1)), "LNX-DEV-06"),
    M("device group", alter("device", "gid", plus(1)), "LNX-DEV-06"),
    M("ptmx dropped", drop("symlink", target="/dev/ptmx"), "LNX-DEFDEV-03"),
    M("links dropped", drop("symlink", target="/dev/std"), "RTL-LINK-01"),
    M("link elsewhere", alter("symlink", "text", "/x", target="/dev/fd"), "RTL-LINK-01"),
    M("filter dropped", drop("seccomp"), "LNX-SECC-10"),
    M("sysctl dropped", drop("write_proc", where="linux.sysctl"), "LNX-SYSCTL-01"),
    M("offsets dropped", drop("write_proc", path="timens_offsets"), "LNX-TIME-01"),
    M("root propagation", alter("propagation", "flags", PRIVATE_RECURSIVE), "LNX-PROP-02"),
    M("host's UTS namespace", shared_namespace(NEWUTS), "LNX-NS-06", "[uts]"),
    M("host's IPC namespace", shared_namespace(NEWIPC), "LNX-NS-06", "[ipc]"),
    M("host's network namespace", shared_namespace(NEWNET), "LNX-NS-06", "[network]"),
    M("host's PID namespace", shared_namespace(NEWPID), "LNX-NS-06", "[pid]"),
    M("namespace not joined", drop("join_namespace"), "LNX-NS-04"),
    M("mounts dropped", drop("mount", where="mounts[3]"), "CFG-MOUNT-10"),
    M("order of mounts", reverse("mount"), "CFG-MOUNT-01"),
    M("mount data dropped", alter("mount", "options", []), "CFG-MOUNT-08"),
    M("nosuid forgotten", alter("mount", "attributes", without(NOSUID)), "CFG-MOPT-nosuid"),
    M("nodev forgotten", alter("mount", "attributes", without(NODEV)), "CFG-MOPT-nodev"),
    M("noexec forgotten", alter("mount", "attributes", without(NOEXEC)), "CFG-MOPT-noexec"),
    M("noatime forgotten", alter("mount", "attributes", without(NOATIME)), "CFG-MOPT-noatime"),
    M("ro forgotten", alter("mount", "attributes", without(RDONLY)), "CFG-MOPT-ro"),
    M("propagation of mounts", alter("mount", "propagation", 0), "CFG-MOPT-shared"),
    M("bind is not recursive", alter("bind", "recursive", 0), "CFG-MOPT-rbind"),
    M("bind attributes dropped", alter("bind", "set_attributes", 0), "CFG-MOPT-ro"),
    M("recursive ones dropped", alter("bind", "set_recursive", 0), "CFG-MOPT-rro"),
    M("bind mounts dropped", drop("bind", where="mounts"), "CFG-MOPT-bind"),
    M(
        "createContainer hooks dropped",
        drop("hook", where="hooks.createContainer"),
        "CFG-HOOK-CCT-01",
    ),
    M("startContainer hooks dropped", drop("hook", where="hooks.start"), "CFG-HOOK-SCT-01"),
    M("order of hooks", reverse("hook"), "CFG-HOOK-07"),
    M("hook arguments", alter("hook", "args", lambda old: [*old, "more"]), "CFG-HOOK-03"),
    M("hook environment", alter("hook", "env", []), "CFG-HOOK-04"),
    M("hook's state", alter("hook", "state_before", '{"x": 1, "pid":'), "CFG-HOOK-08"),
    M(
        "createContainer hooks late",
        move("hook", "pivot_root", behind=True, where="hooks.createContainer"),
        "CFG-HOOK-CCT-03",
    ),
    M(
        "startContainer hooks early",
        move("hook", "close_host", where="hooks.startContainer"),
        "CFG-HOOK-SCT-01",
    ),
    M("runtime's hooks late", move("sync", "find_executable", stage=3), "CFG-HOOK-CRT-01"),
    M("runtime's hooks dropped", drop("sync", stage=3), "CFG-HOOK-PRE-01"),
    M("no cgroup", drop("sync", stage=2), "LNX-CGPATH-02"),
    M("program does not wait", drop("wait_start"), "RT-LIFE-03", deadly=True),
)
MUTATIONS = {one.name: one for one in (*ROWS, Mutation("unbroken", nothing, ""))}
