"""The plan of an `exec`: the order of giving up and going in."""

from __future__ import annotations

from typing import Any

import pytest

from ociruntime.base.capabilities import CAPABILITIES
from ociruntime.base.linux import CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER
from ociruntime.runtime.host.seccomp_verdicts import CALLS
from ociruntime.runtime.plan.exec_plan import compile_exec_plan
from ociruntime.runtime.plan.operation_table import CONSOLE_CONTROL
from ociruntime.runtime.plan.plan import Plan
from tests.unit.runtime.plan.compiling import config, facts, names, request, steps

ALL = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET


def joining(apart: int = ALL, process: dict[str, Any] | None = None, **asked: object) -> Plan:
    document: Any = config(process=process or {})
    return compile_exec_plan(document, facts(), request(**asked), 77, apart)


def test_plain() -> None:
    assert names(joining()) == [
        "sync",
        "affinity",
        "null_streams",
        "join_process",
        "keyring",
        "chdir",
        "bounding",
        "user",
        "capabilities",
        "chdir",
        "umask",
        "home",
        "find_executable",
        "close_host",
        "clone_process",
        "exec",
    ]
    assert steps(joining(), "join_process") == [{"flags": ALL, "root_of": 0}]


def test_an_affinity_of_its_own_is_left_alone() -> None:
    """CFG-AFF-03: without a final one it is not touched behind the move into the cgroup."""
    process = {"execCPUAffinity": {"initial": "0"}}
    assert names(joining(process=process))[:3] == ["affinity", "sync", "null_streams"]


def test_fork_comes_when_all_is_given_up_and_behind_the_filter() -> None:
    order = names(joining(seccomp_filter=bytes(8), seccomp_calls=frozenset(CALLS)))
    assert order[-4:] == ["seccomp", "drop_extra", "clone_process", "exec"]


def test_fork_that_the_filter_forbids_comes_before_it() -> None:
    plan = joining(seccomp_filter=bytes(8), seccomp_calls=frozenset(CALLS) - {"setsid"})
    assert names(plan)[-3:] == ["clone_process", "seccomp", "exec"]
    assert "setsid" in plan.warnings[0]


def test_no_fork_without_a_pid_namespace() -> None:
    assert "clone_process" not in names(joining(CLONE_NEWNS))


def test_child_has_nothing_of_the_host() -> None:
    """A container with CAP_SYS_PTRACE may trace it from its first instruction (CVE-2016-9962)."""
    for policy in ("SCHED_BATCH", "SCHED_DEADLINE"):
        order = names(joining(process={"scheduler": {"policy": policy}}))
        assert order.index("capabilities") < order.index("close_host")
        assert order.index("close_host") + 1 == order.index("clone_process")


def test_policy_that_children_inherit_comes_before_the_fork() -> None:
    order = names(joining(process={"scheduler": {"policy": "SCHED_BATCH"}}))
    assert order.index("scheduler") < order.index("user")
    assert order.count("capabilities") == 1


@pytest.mark.parametrize(
    "scheduler",
    [
        {"policy": "SCHED_BATCH", "flags": ["SCHED_FLAG_RESET_ON_FORK"]},
        {"policy": "SCHED_DEADLINE", "runtime": 1, "deadline": 2, "period": 2},
    ],
)
def test_policy_that_a_fork_would_end_comes_after_it(scheduler: dict[str, Any]) -> None:
    """What that takes is all that the child has beside its own, and not for long."""
    plan = joining(process={"scheduler": scheduler})
    fork = names(plan).index("clone_process")
    assert names(plan)[fork + 1 :] == ["scheduler", "capabilities", "exec"]
    before, after = steps(plan, "capabilities")
    nice = 1 << CAPABILITIES.index("CAP_SYS_NICE")
    assert before == {**after, "effective": nice, "permitted": nice}
    assert (after["effective"], after["permitted"]) == (0, 0)


def test_root_of_a_container_that_shares_the_mounts() -> None:
    assert steps(joining(CLONE_NEWPID), "join_process") == [{"flags": CLONE_NEWPID, "root_of": 77}]
    assert steps(joining(0), "join_process") == [{"flags": 0, "root_of": 77}]


def test_user_namespace() -> None:
    """Limits are raised and the OOM score lowered while the host's privileges are there."""
    limit = {"type": "RLIMIT_NOFILE", "soft": 1, "hard": 2}
    plan = joining(ALL | CLONE_NEWUSER, {"rlimits": [limit], "oomScoreAdj": -5})
    order = names(plan)
    assert order[:2] == ["write_proc", "rlimit"]
    assert order.index("join_process") + 1 == order.index("become_root")


@pytest.mark.parametrize(("apart", "flags", "taken"), [(ALL, 0, 1), (CLONE_NEWNS, 2, None)])
def test_terminal_is_controlled_by_the_last_process(
    apart: int, flags: int, taken: int | None
) -> None:
    plan = joining(apart, {"terminal": True}, console=True)
    assert steps(plan, "console")[0]["flags"] == flags
    assert [one["terminal"] for one in steps(plan, "clone_process")] == [taken] * (taken or 0)
    assert CONSOLE_CONTROL == 2


def test_affinity_around_the_cgroup() -> None:
    plan = joining(process={"execCPUAffinity": {"initial": "0-1,9", "final": "64"}})
    assert names(plan)[:3] == ["affinity", "sync", "affinity"]
    masks = [int.from_bytes(one["cpus"], "little") for one in steps(plan, "affinity")]
    assert masks == [0x203, 1 << 64]
    assert "affinity" not in names(joining(process={"execCPUAffinity": {"final": " "}}))
