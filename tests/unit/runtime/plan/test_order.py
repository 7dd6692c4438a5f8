"""Invariants of every plan, for any config."""

from __future__ import annotations

from pathlib import Path

import pytest

from ociruntime.base.linux import CLONE_NEWCGROUP, CLONE_NEWNS, CLONE_NEWUSER
from ociruntime.runtime.host.seccomp_verdicts import CALLS
from ociruntime.runtime.plan.operation_table import (
    STAGE_CGROUP,
    STAGE_HOOKS,
    STAGE_MAPS,
    STAGE_NETWORK,
    STAGE_READY,
)
from tests.support import golden
from tests.unit.runtime.plan.compiling import compiled, config, facts, names, steps

USER = {
    "uidMappings": [{"containerID": 0, "hostID": 1000, "size": 5}],
    "gidMappings": [{"containerID": 0, "hostID": 1000, "size": 5}],
}


PLANS = [case for case in golden.CASES if (case / "plan.txt").exists()]


def way_in(order: list[str]) -> int:
    """Where the root becomes the process's root."""
    return next(n for n, name in enumerate(order) if name in {"pivot_root", "move_root", "chroot"})


@pytest.mark.parametrize("case", PLANS, ids=lambda case: case.name)
def test_stages(case: Path) -> None:
    plan = golden.plan_of(case)
    stages = [one["stage"] for one in steps(plan, "sync")]
    others = [stage for stage in stages if stage != STAGE_NETWORK]
    assert others == sorted(set(others)), "each once, in their order"
    assert {STAGE_CGROUP, STAGE_READY} <= set(stages)
    order = names(plan)
    if STAGE_MAPS in stages:
        assert order.index("sync") < order.index("clone_init")
    if STAGE_HOOKS in stages:
        entry = way_in(order)
        ready = [index for index, name in enumerate(order) if name == "sync"]
        assert ready[stages.index(STAGE_HOOKS)] < entry


def test_network_devices_are_there_before_what_may_speak_of_them() -> None:
    hooks = {"createRuntime": [{"path": "/bin/true"}]}
    linux = {
        **namespaces("mount", "network"),
        "netDevices": {"eth9": {}},
        "sysctl": {"net.ipv4.conf.eth9.forwarding": "1"},
    }
    plan = compiled(config(linux=linux, hooks=hooks))
    stages = [one["stage"] for one in steps(plan, "sync")]
    assert stages.count(STAGE_NETWORK) == 1
    assert stages.index(STAGE_NETWORK) < stages.index(STAGE_HOOKS)
    order = names(plan)
    syncs = [index for index, name in enumerate(order) if name == "sync"]
    assert syncs[stages.index(STAGE_NETWORK)] < order.index("write_proc")


@pytest.mark.parametrize("case", PLANS, ids=lambda case: case.name)
def test_nothing_of_the_host_is_looked_up_after_entering(case: Path) -> None:
    order = names(golden.plan_of(case))
    entry = way_in(order)
    of_the_host = {
        "bind",
        "open_tree",
        "open_namespace",
        "root",
        "shared_root",
        "recorded_root",
        "device",
        "mask",
        "mount",
    }
    assert not of_the_host & set(order[entry:])
    roots = ("root", "shared_root", "recorded_root")
    assert sum(order.count(root) for root in roots) == 1


@pytest.mark.parametrize("case", PLANS, ids=lambda case: case.name)
def test_six_devices_are_always_there(case: Path) -> None:
    made = {one["target"] for one in steps(golden.plan_of(case), "device")}
    assert {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty")} <= made


def namespaces(*kinds: str, **joined: str) -> dict[str, object]:
    listed = [{"type": kind} for kind in kinds]
    listed += [{"type": kind, "path": path} for kind, path in joined.items()]
    return {"namespaces": listed}


def test_all_new_namespaces_are_made_by_the_spawn() -> None:
    plan = compiled(config(linux=namespaces("mount", "cgroup")))
    assert plan.clone_flags == CLONE_NEWNS
    assert "clone_init" not in names(plan)
    assert steps(plan, "unshare") == [{"flags": CLONE_NEWCGROUP}]


def test_cgroup_namespace_is_made_in_the_cgroup() -> None:
    order = names(compiled(config(linux=namespaces("mount", "cgroup"))))
    at = order.index("unshare")
    assert order[at - 2 : at] == ["sync", "affinity"]


def test_joining_is_done_before_the_process_exists() -> None:
    plan = compiled(config(linux=namespaces("mount", network="/run/netns/a", ipc="/proc/1/ns/ipc")))
    assert plan.clone_flags == 0
    order = names(plan)
    assert order[:5] == ["open_namespace"] * 2 + ["join_namespace"] * 2 + ["clone_init"]
    assert steps(plan, "clone_init") == [{"flags": CLONE_NEWNS}]


@pytest.mark.parametrize("calls", [CALLS.keys(), set()])
def test_joined_pid_namespace_is_entered_when_all_is_given_up(calls: set[str]) -> None:
    """A process in it may trace whatever appears there."""
    document = config(linux=namespaces("mount", pid="/proc/1/ns/pid"))
    plan = compiled(document, seccomp_filter=bytes(8), seccomp_calls=frozenset(calls))
    order = names(plan)
    assert order[:3] == ["open_namespace", "join_namespace", "unshare"]
    assert "clone_init" not in order
    fork = order.index("clone_process")
    assert order[fork + 1 : fork + 3] == ["sync", "wait_start"]
    before = ["seccomp", "drop_extra"] if calls else ["affinity", "close_host"]
    assert order[fork - 2 : fork] == before
    assert bool(plan.warnings) is not bool(calls)


def test_joined_pid_namespace_without_a_process() -> None:
    document = config(linux=namespaces("mount", pid="/proc/1/ns/pid"))
    del document["process"]
    assert names(compiled(document))[-3:] == ["clone_process", "sync", "wait_start"]


@pytest.mark.parametrize(("uid", "place"), [(0, -1), (1000, 0)])
def test_when_a_user_namespace_is_joined(uid: int, place: int) -> None:
    linux = namespaces("mount", user="/proc/1/ns/user", network="/n", ipc="/i")
    joined = steps(compiled(config(linux=linux), facts(uid=uid)), "join_namespace")
    assert [one["kind"] for one in joined].index(CLONE_NEWUSER) == place % len(joined)


def test_time_offsets_are_written_before_anybody_is_in() -> None:
    linux = {**namespaces("mount", "time"), "timeOffsets": {"boottime": {"secs": -2}}}
    plan = compiled(config(linux=linux))
    assert names(plan)[:3] == ["unshare", "write_proc", "clone_init"]
    assert steps(plan, "write_proc")[0]["data"] == "boottime -2 0\n"


def test_host_tree_of_a_joined_mount_namespace_is_left_alone() -> None:
    assert "propagation" not in names(compiled(config(linux=namespaces(mount="/m"))))


def test_masks_come_after_hooks_and_settings() -> None:
    plan = compiled(
        config(
            hooks={"createContainer": [{"path": "/h"}]},
            linux={
                **namespaces("mount", "network"),
                "maskedPaths": ["/proc/keys"],
                "sysctl": {"net.ipv4.ip_forward": "1"},
            },
        )
    )
    order = names(plan)
    wanted = ["write_proc", "hook", "mask", "pivot_root"]
    assert [name for name in order if name in wanted] == wanted


def test_loopback_only_in_a_new_network_namespace() -> None:
    assert "loopback" in names(compiled(config(linux=namespaces("mount", "network"))))
    assert "loopback" not in names(compiled(config(linux=namespaces("mount", network="/n"))))
    assert "loopback" not in names(compiled(config()))
