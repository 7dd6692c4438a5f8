from __future__ import annotations

from typing import Any

import pytest

from ociruntime.base import linux
from ociruntime.base.errors import ConfigError
from ociruntime.runtime.plan.operation_table import (
    MOUNT_INHERIT_MODE,
    MOUNT_REAL_DIRECTORY,
    NO_SLOT,
    SLOTS,
)
from ociruntime.runtime.plan.plan import Plan
from tests.unit.runtime.plan.compiling import compiled, config, facts, names, steps

PROC = {"destination": "/proc", "type": "proc", "source": "proc"}
TMPFS = {"destination": "/a", "type": "tmpfs"}


def tmpfs(destination: str, *options: str) -> dict[str, Any]:
    return {"destination": destination, "type": "tmpfs", "options": list(options)}


def bind(destination: str, *options: str, source: str = "/src") -> dict[str, Any]:
    return {"destination": destination, "source": source, "options": ["bind", *options]}


def test_order_is_kept() -> None:
    plan = compiled(config(mounts=[tmpfs("/a"), bind("/a/b"), tmpfs("/c")]))
    assert [name for name in names(plan) if name in {"mount", "bind"}] == ["mount", "bind", "mount"]


@pytest.mark.parametrize(
    ("written", "target"),
    [("tmp", "/tmp"), ("/a//b/", "/a/b"), ("/../etc", "/etc"), ("/a/./b/../c", "/a/c")],
)
def test_destination(written: str, target: str) -> None:
    assert steps(compiled(config(mounts=[tmpfs(written)])), "mount")[0]["target"] == target


def test_source_relative_to_the_bundle() -> None:
    plan = compiled(config(mounts=[bind("/a", source="data"), bind("/b", source="/data")]))
    assert [one["source"] for one in steps(plan, "bind")] == ["/bundle/data", "/data"]


@pytest.mark.parametrize("kind", [None, "none", "bind", "tmpfs", "ext4"])
def test_bind_whatever_the_type(kind: str | None) -> None:
    mount = {**bind("/a"), **({"type": kind} if kind else {})}
    assert steps(compiled(config(mounts=[mount])), "bind")[0]["slot"] == NO_SLOT


def test_tmpfs_takes_the_mode_of_the_directory_unless_given() -> None:
    plan = compiled(config(mounts=[tmpfs("/a"), tmpfs("/b", "mode=700")]))
    assert [one["flags"] for one in steps(plan, "mount")] == [MOUNT_INHERIT_MODE, 0]


def test_proc_and_sys_need_a_real_directory() -> None:
    sysfs = {"destination": "/sys", "type": "sysfs", "source": "sysfs"}
    plan = compiled(config(mounts=[PROC, sysfs]))
    assert [one["flags"] for one in steps(plan, "mount")] == [MOUNT_REAL_DIRECTORY] * 2


def test_read_only_filesystem_says_so_to_the_kernel_twice() -> None:
    ext4 = {"destination": "/d", "type": "ext4", "source": "/dev/sdb", "options": ["ro"]}
    (mount,) = steps(compiled(config(mounts=[ext4])), "mount")
    assert mount["attributes"] == linux.MOUNT_ATTR_RDONLY
    assert mount["options"] == ["ro"]


def read_only_later(plan: Plan) -> list[str]:
    """The mounts made read-only after they were filled."""
    return [
        one["target"]
        for one in steps(plan, "set_attributes")
        if one["set_attributes"] == linux.MOUNT_ATTR_RDONLY
    ]


def test_read_only_tmpfs_waits_for_what_is_mounted_in_it() -> None:
    plan = compiled(config(mounts=[tmpfs("/run", "ro"), bind("/run/x"), tmpfs("/last", "ro")]))
    assert [one["attributes"] for one in steps(plan, "mount")] == [0, linux.MOUNT_ATTR_RDONLY]
    assert read_only_later(plan) == ["/run"]


def test_read_only_dev_waits_for_its_devices() -> None:
    plan = compiled(config(mounts=[tmpfs("/dev", "ro")]))
    assert read_only_later(plan) == ["/dev"]
    order = names(plan)
    assert len(order) - order[::-1].index("set_attributes") > max(
        index for index, name in enumerate(order) if name in {"device", "symlink"}
    )


def test_read_only_tmpfs_that_is_covered_is_not_touched_again() -> None:
    plan = compiled(config(mounts=[tmpfs("/a", "ro"), bind("/a")]))
    assert read_only_later(plan) == []


def test_propagation_words_are_applied_one_after_the_other() -> None:
    plan = compiled(config(mounts=[bind("/a", "slave", "shared")]))
    assert steps(plan, "bind")[0]["propagation"] == linux.MS_SLAVE
    assert steps(plan, "set_attributes")[-1]["propagation"] == linux.MS_SHARED


USER = {
    "namespaces": [{"type": "mount"}, {"type": "user"}],
    "uidMappings": [{"containerID": 0, "hostID": 1000, "size": 5}],
    "gidMappings": [{"containerID": 0, "hostID": 1000, "size": 5}],
}


def test_bind_in_a_user_namespace_is_opened_outside() -> None:
    plan = compiled(config(mounts=[tmpfs("/t"), bind("/a", "shared")], linux=USER))
    (tree,) = steps(plan, "open_tree")
    (mount,) = steps(plan, "bind")
    assert tree["slot"] == mount["slot"]
    assert tree["source"] == "/src"
    # Taken from the host's mount namespace: it must not pass anything back.
    assert mount["propagation"] == linux.MS_SLAVE | linux.MS_REC
    assert names(plan).index("open_tree") < names(plan).index("unshare")


def test_ordinary_user_opens_sources_itself() -> None:
    plan = compiled(config(mounts=[bind("/a")], linux=USER), facts(uid=1000))
    assert steps(plan, "open_tree") == []
    assert steps(plan, "bind")[0]["slot"] == NO_SLOT


def test_more_binds_than_slots() -> None:
    plan = compiled(config(mounts=[bind(f"/m{n}") for n in range(SLOTS + 16)], linux=USER))
    slots = [one["slot"] for one in steps(plan, "bind")]
    assert slots == [*range(SLOTS), *[NO_SLOT] * 16]


def test_id_mapped_binds_come_first_where_slots_are_short() -> None:
    mounts = [bind(f"/m{n}") for n in range(SLOTS)] + [bind("/mapped", "idmap")]
    plan = compiled(config(mounts=mounts, linux=USER))
    slots = [one["slot"] for one in steps(plan, "bind")]
    assert slots == [*range(1, SLOTS - 1), NO_SLOT, NO_SLOT, SLOTS - 1]


def test_too_many_id_mapped_binds() -> None:
    mounts = [bind(f"/m{n}", "idmap") for n in range(SLOTS)]
    with pytest.raises(ConfigError, match=f"more than {SLOTS} id-mapped mounts"):
        compiled(config(mounts=mounts, linux=USER))


@pytest.mark.parametrize(("gid", "kept"), [(4, True), (5, False)])
def test_unmapped_tty_group_is_left_out(gid: int, kept: bool) -> None:
    devpts = {"destination": "/dev/pts", "type": "devpts", "options": [f"gid={gid}", "mode=620"]}
    plan = compiled(config(mounts=[devpts], linux=USER))
    assert (f"gid={gid}" in steps(plan, "mount")[0]["options"]) is kept
    assert bool(plan.warnings) is not kept


@pytest.mark.parametrize(
    ("mount", "where"),
    [
        (tmpfs("/a", "ro", "roo"), "mounts[0].options[1]"),
        (tmpfs("/a", "size=1,sise=2"), "mounts[0].options[0]"),
        (bind("/a", "nosiud"), "mounts[0].options[1]"),
        ({**PROC, "options": ["hidepids=2"]}, "mounts[0].options[0]"),
        (tmpfs("/"), "mounts[0].destination"),
        (tmpfs("/proc/self"), "mounts[0].destination"),
        (bind("/proc/sys/kernel"), "mounts[0].destination"),
        (bind("/sys/../proc"), "mounts[0]"),
        (tmpfs("/proc"), "mounts[0]"),
        ({**PROC, "options": ["bind"], "source": "/etc"}, "mounts[0]"),
        ({"destination": "/a", "options": ["bind", "remount", "nosiud"]}, "mounts[0].options[2]"),
        ({**TMPFS, "options": ["remount", "sise=1"]}, "mounts[0].options[1]"),
        ({**PROC, "options": ["nodev", "tmpcopyup"]}, "mounts[0].options[1]"),
        (bind("/a", "tmpcopyup"), "mounts[0].options[1]"),
    ],
)
def test_refused(mount: dict[str, Any], where: str) -> None:
    with pytest.raises(ConfigError) as refused:
        compiled(config(mounts=[mount]))
    assert refused.value.where == where


def test_bind_ignores_options_of_filesystems() -> None:
    """They have no effect on a bind mount, so that neither runc nor crun refuses them."""
    for options in (["bind", "remount", "size=1"], ["bind", "size=1"]):
        mount = {"destination": "/a", "source": "/srv", "options": options}
        (warning,) = compiled(config(mounts=[mount])).warnings
        assert warning.startswith(f"mounts[0].options[{len(options) - 1}]")


def test_remount_with_bind_leaves_the_filesystem_alone() -> None:
    again = {"destination": "/a", "options": ["remount", "sync", "size=1"]}
    plan = compiled(config(mounts=[{**again, "type": "tmpfs"}]))
    assert [one["options"] for one in steps(plan, "reconfigure")] == [["sync", "size=1"]]
    plan = compiled(config(mounts=[{**again, "options": ["bind", "remount", "sync"]}]))
    assert steps(plan, "reconfigure") == []


def test_files_of_lxcfs_may_be_replaced() -> None:
    plan = compiled(config(mounts=[PROC, bind("/proc/meminfo"), bind("/procfs")]))
    assert len(steps(plan, "bind")) == 2
