from __future__ import annotations

import pytest

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.plan.operation_table import (
    CONSOLE_BIND,
    CONSOLE_CONTROL,
    STAGE_CGROUP,
    STAGE_READY,
)
from ociruntime.runtime.plan.process import unique_environment
from ociruntime.runtime.plan.scheduling import mask_words, node_mask
from tests.unit.runtime.plan.compiling import compiled, config, facts, names, steps


def test_of_two_entries_with_one_name_the_last_counts() -> None:
    assert unique_environment(["A=1", "B=2", "A=3"]) == ["B=2", "A=3"]
    assert unique_environment(["A=1", "AB=2"]) == ["A=1", "AB=2"]


@pytest.mark.parametrize(
    ("env", "path"),
    [
        ([], "/bin:/usr/bin"),
        (["PATH="], ""),
        (["PATH=/a:/b=c"], "/a:/b=c"),
        (["PATH=/a", "PATH=/b"], "/b"),
        (["XPATH=/a"], "/bin:/usr/bin"),
    ],
)
def test_search_path(env: list[str], path: str) -> None:
    (found,) = steps(compiled(config(process={"env": env})), "find_executable")
    assert found == {"file": "/bin/true", "path": path}


def test_home_is_looked_up_only_if_it_is_not_given() -> None:
    assert len(steps(compiled(config(process={"env": ["A=HOME=1"]})), "home")) == 1
    assert steps(compiled(config(process={"env": ["HOME="]})), "home") == []


@pytest.mark.parametrize(("user", "mask"), [({}, 0o022), ({"umask": 0}, 0), ({"umask": 63}, 63)])
def test_umask(user: dict[str, int], mask: int) -> None:
    plan = compiled(config(process={"user": {"uid": 0, "gid": 0, **user}}))
    assert steps(plan, "umask") == [{"mask": mask}]


def test_working_directory_is_made_before_the_root_is_read_only() -> None:
    plan = compiled(
        config(root={"path": "rootfs", "readonly": True}, process={"cwd": "/srv//app/"})
    )
    assert steps(plan, "mkdir") == [{"target": "/srv/app", "mode": 0o755}]
    changed = [index for index, name in enumerate(names(plan)) if name == "set_attributes"]
    assert names(plan).index("mkdir") < changed[-1]
    assert {one["path"] for one in steps(plan, "chdir")} == {"/srv/app"}
    assert [one["optional"] for one in steps(plan, "chdir")] == [1, 0]


def test_oom_score_comes_first_of_all() -> None:
    plan = compiled(config(process={"oomScoreAdj": 0}))
    assert names(plan)[0] == "write_proc"
    assert steps(plan, "write_proc") == [{"path": "self/oom_score_adj", "data": "0"}]
    assert "write_proc" not in names(compiled(config()))


def test_descriptors_are_closed_after_their_last_use() -> None:
    plan = compiled(config(process={"apparmorProfile": "web"}), facts(apparmor="self/attr/exec"))
    order = names(plan)
    last = max(
        order.index(name) for name in ("write_proc", "find_executable", "pivot_root", "home")
    )
    assert last < order.index("close_host") < len(order) - 1


def test_without_a_process_there_is_nothing_to_start() -> None:
    document = config()
    del document["process"]
    plan = compiled(document)
    assert names(plan)[-3:] == ["close_host", "sync", "wait_start"]
    assert [one["stage"] for one in steps(plan, "sync")] == [STAGE_CGROUP, STAGE_READY]


@pytest.mark.parametrize(
    ("name", "label"), [("apparmorProfile", "AppArmor"), ("selinuxLabel", "SELinux")]
)
def test_label_without_its_module(name: str, label: str) -> None:
    with pytest.raises(ConfigError, match=f"process.{name}: {label} is not enabled"):
        compiled(config(process={name: "x"}))


def test_labels_are_written_before_the_program_is_executed() -> None:
    labels = {"apparmorProfile": "web", "selinuxLabel": "u:r:t:s0"}
    with_both = facts(apparmor="self/attr/apparmor/exec", selinux=True)
    plan = compiled(config(process=labels), with_both)
    assert [(one["path"], one["data"]) for one in steps(plan, "write_proc")] == [
        ("self/attr/keycreate", "u:r:t:s0"),
        ("self/attr/apparmor/exec", "exec web"),
        ("self/attr/exec", "u:r:t:s0"),
    ]


def test_io_priority() -> None:
    plan = compiled(config(process={"ioPriority": {"class": "IOPRIO_CLASS_BE", "priority": 4}}))
    assert steps(plan, "io_priority") == [{"value": 2 << 13 | 4}]


def test_scheduler_waits_for_the_cgroup() -> None:
    plan = compiled(config(process={"scheduler": {"policy": "SCHED_RR", "nice": -1}}))
    (step,) = steps(plan, "scheduler")
    assert (step["policy"], step["nice"]) == (2, 0xFFFFFFFF)
    assert names(plan).index("sync") < names(plan).index("scheduler")


def test_scheduler_that_the_kernel_does_not_have() -> None:
    with pytest.raises(ConfigError, match="SCHED_ISO"):
        compiled(config(process={"scheduler": {"policy": "SCHED_ISO"}}))


def test_memory_policy() -> None:
    policy = {"mode": "MPOL_BIND", "nodes": "0,2-3", "flags": ["MPOL_F_STATIC_NODES"]}
    (step,) = steps(compiled(config(linux={"memoryPolicy": policy})), "memory_policy")
    assert step == {"mode": 2 | 1 << 15, "nodes": b"\x0d" + bytes(7)}


@pytest.mark.parametrize(
    ("text", "mask"),
    [("", 0), ("0", 1), ("63", 1 << 63), ("0-3,5", 0b101111), ("0-7:2/4", 0b00110011)],
)
def test_node_mask(text: str, mask: int) -> None:
    assert node_mask(text) == mask
    assert int.from_bytes(mask_words(mask), "little") == mask


@pytest.mark.parametrize(("node", "words"), [(63, 1), (64, 2), (127, 2), (128, 3), (1023, 16)])
def test_node_mask_is_whole_words(node: int, words: int) -> None:
    assert mask_words(node_mask(str(node))) == (1 << node).to_bytes(words * 8, "little")


def test_no_node_is_no_mask() -> None:
    assert mask_words(node_mask("")) == b""


def test_node_that_no_kernel_has() -> None:
    with pytest.raises(
        ConfigError, match=r"linux\.memoryPolicy\.nodes: NUMA node 1024 does not exist"
    ):
        node_mask("0-1024")


def test_soft_limit_is_set_after_the_set_up() -> None:
    limits = [{"type": "RLIMIT_NOFILE", "soft": 3, "hard": 9}]
    linux = {
        "namespaces": [{"type": "mount"}, {"type": "user"}],
        "uidMappings": [{"containerID": 0, "hostID": 1000, "size": 1}],
        "gidMappings": [{"containerID": 0, "hostID": 1000, "size": 1}],
    }
    inside = steps(compiled(config(process={"rlimits": limits}, linux=linux)), "rlimit")
    assert inside == [
        {"resource": 7, "soft": 9, "hard": 9},
        {"resource": 7, "soft": 3, "hard": 9},
    ]
    assert len(steps(compiled(config(process={"rlimits": limits})), "rlimit")) == 1


def test_terminal() -> None:
    process = {
        "terminal": True,
        "consoleSize": {"height": 2, "width": 3},
        "user": {"uid": 5, "gid": 0},
    }
    plan = compiled(config(process=process), console=True)
    flags = CONSOLE_BIND | CONSOLE_CONTROL
    assert steps(plan, "console") == [{"rows": 2, "columns": 3, "uid": 5, "flags": flags}]
    assert steps(plan, "stdio_owner") == []
    assert steps(compiled(config(process=process)), "console") == []
