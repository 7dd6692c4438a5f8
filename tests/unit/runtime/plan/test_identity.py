from __future__ import annotations

from typing import Any

import pytest

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.plan.identity import BITS, CAP_SYS_ADMIN
from tests.unit.runtime.plan.compiling import compiled, config, facts, names, steps

KILL, CHOWN, TIME = BITS["CAP_KILL"], BITS["CAP_CHOWN"], BITS["CAP_SYS_TIME"]
FILTER = bytes(8)


def capabilities(**sets: list[str]) -> dict[str, Any]:
    return config(process={"capabilities": sets})


def test_bits() -> None:
    assert (BITS["CAP_CHOWN"], BITS["CAP_CHECKPOINT_RESTORE"]) == (1, 1 << 40)
    assert CAP_SYS_ADMIN == 1 << 21


def test_absent_means_none() -> None:
    plan = compiled(config())
    assert steps(plan, "bounding") == [{"keep": 0}]
    assert set(steps(plan, "capabilities")[0].values()) == {0}
    assert plan.warnings == []


def test_each_set_as_listed() -> None:
    plan = compiled(
        capabilities(
            bounding=["CAP_KILL", "CAP_CHOWN"],
            effective=["CAP_KILL"],
            permitted=["CAP_KILL", "CAP_CHOWN"],
            inheritable=["CAP_CHOWN"],
            ambient=["CAP_CHOWN"],
        )
    )
    assert steps(plan, "bounding") == [{"keep": KILL | CHOWN}]
    assert steps(plan, "capabilities") == [
        {"effective": KILL, "permitted": KILL | CHOWN, "inheritable": CHOWN, "ambient": CHOWN}
    ]
    assert plan.warnings == []


def test_what_cannot_be_granted_is_a_warning() -> None:
    both = ["CAP_KILL", "CAP_SYS_TIME"]
    plan = compiled(
        capabilities(bounding=both, permitted=both), facts(bounding=(1 << 41) - 1 - TIME)
    )
    assert steps(plan, "bounding") == [{"keep": KILL}]
    assert steps(plan, "capabilities")[0]["permitted"] == KILL
    (warning,) = plan.warnings
    assert warning.startswith("process.capabilities: CAP_SYS_TIME ")


def test_unknown_to_the_kernel_is_a_warning() -> None:
    plan = compiled(capabilities(bounding=["CAP_BPF"]), facts(last_capability=37))
    assert steps(plan, "bounding") == [{"keep": 0}]
    assert "CAP_BPF" in plan.warnings[0]


def test_user_namespace_has_a_full_bounding_set() -> None:
    document = capabilities(bounding=["CAP_SYS_TIME"])
    document["linux"] = {
        "namespaces": [{"type": "mount"}, {"type": "user"}],
        "uidMappings": [{"containerID": 0, "hostID": 1000, "size": 1}],
        "gidMappings": [{"containerID": 0, "hostID": 1000, "size": 1}],
    }
    assert steps(compiled(document, facts(bounding=KILL)), "bounding") == [{"keep": TIME}]


def test_sets_that_the_kernel_would_refuse_are_cut() -> None:
    plan = compiled(
        capabilities(
            bounding=["CAP_KILL"],
            effective=["CAP_CHOWN"],
            permitted=["CAP_KILL"],
            inheritable=["CAP_CHOWN", "CAP_KILL"],
            ambient=["CAP_CHOWN", "CAP_KILL"],
        )
    )
    assert steps(plan, "capabilities") == [
        {"effective": 0, "permitted": KILL, "inheritable": KILL, "ambient": KILL}
    ]
    assert len(plan.warnings) == 3


def test_filter_without_no_new_privileges_needs_a_capability() -> None:
    plan = compiled(capabilities(bounding=["CAP_KILL"]), seccomp_filter=FILTER)
    (sets,) = steps(plan, "capabilities")
    assert sets["effective"] == sets["permitted"] == CAP_SYS_ADMIN
    assert sets["inheritable"] == sets["ambient"] == 0
    assert steps(plan, "bounding") == [{"keep": KILL}]


def test_filter_with_no_new_privileges_needs_none() -> None:
    plan = compiled(config(process={"noNewPrivileges": True}), seccomp_filter=FILTER)
    assert set(steps(plan, "capabilities")[0].values()) == {0}
    assert names(plan)[-2:] == ["seccomp", "exec"]
    assert names(plan).index("no_new_privs") < names(plan).index("seccomp")


def test_order_of_becoming_the_user() -> None:
    order = names(compiled(config(process={"user": {"uid": 7, "gid": 8}})))
    place = order.index("bounding")
    assert order[place : place + 3] == ["bounding", "user", "capabilities"]
    assert order[place - 1] == order[place + 3] == "chdir"
    assert order[place - 2] == "stdio_owner"


def test_groups() -> None:
    user = {"uid": 7, "gid": 8, "additionalGids": [1, 2]}
    (step,) = steps(compiled(config(process={"user": user})), "user")
    assert step == {"uid": 7, "gid": 8, "groups": [1, 2], "set_groups": 1}
    (step,) = steps(compiled(config()), "user")
    assert step == {"uid": 0, "gid": 0, "groups": [], "set_groups": 1}


def test_setgroups_is_denied_to_who_maps_only_himself() -> None:
    linux = {
        "namespaces": [{"type": "mount"}, {"type": "user"}],
        "uidMappings": [{"containerID": 0, "hostID": 1000, "size": 1}],
        "gidMappings": [{"containerID": 0, "hostID": 1000, "size": 1}],
    }
    user = facts(uid=1000, gid=1000)
    assert steps(compiled(config(linux=linux), user), "user")[0]["set_groups"] == 0
    assert steps(compiled(config(linux=linux)), "user")[0]["set_groups"] == 1
    # newgidmap has written this map, and leaves setgroups(2) allowed.
    other = facts(uid=1000, gid=100)
    assert steps(compiled(config(linux=linux), other), "user")[0]["set_groups"] == 1
    process = {"user": {"uid": 0, "gid": 0, "additionalGids": [7]}}
    with pytest.raises(ConfigError, match=r"process\.user\.additionalGids: cannot be set"):
        compiled(config(linux=linux, process=process), user)


@pytest.mark.parametrize(("value", "set_groups"), [("1", 0), ("0", 1)])
def test_groups_kept_on_request(value: str, set_groups: int) -> None:
    document = config(annotations={"run.oci.keep_original_groups": value})
    assert steps(compiled(document), "user")[0]["set_groups"] == set_groups
