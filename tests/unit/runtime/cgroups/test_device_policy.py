"""Device rules: the devices that a configuration allows, and the v1 lists for them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.cgroups.device_policy import (
    ANY,
    DevicePolicy,
    DeviceRule,
    default_rules,
    lines_v1,
    policy,
)
from tests.unit.runtime.cgroups.device_model import Request, V1List, allowed, policies, requests

DENY_ALL = {"allow": False, "access": "rwm"}
ALLOW_ALL = {"allow": True, "type": "a", "access": "rwm"}
WHERE = "linux.resources.devices"
MKNOD, READ, WRITE = 1, 2, 4

NULL_RW = ("c", 1, 3, READ | WRITE)
ZERO_W = ("c", 1, 5, WRITE)
PTS_RW = ("c", 136, 7, READ | WRITE)
DISK_R = ("b", 8, 0, READ)
DISK_M = ("b", 8, 0, MKNOD)
KMEM_R = ("c", 1, 2, READ)
FUSE_RW = ("c", 10, 229, READ | WRITE)


def in_v1(wanted: DevicePolicy) -> V1List:
    listing = V1List()
    for file, line, _ in lines_v1(wanted):
        listing.write(file, line)
    return listing


POLICIES: list[tuple[list[dict[str, Any]], list[Request], list[Request]]] = [
    # Without rules, and with the rule that engines begin with: the same.
    ([], [NULL_RW, PTS_RW, DISK_M], [DISK_R, KMEM_R, FUSE_RW]),
    ([DENY_ALL], [NULL_RW, PTS_RW, DISK_M], [DISK_R, KMEM_R, FUSE_RW]),
    # One allow rule does not turn the rest into an allow list of everything.
    (
        [{"allow": True, "type": "c", "major": 10, "minor": 229, "access": "rw"}],
        [FUSE_RW, NULL_RW],
        [DISK_R, KMEM_R],
    ),
    # A later particular deny wins over the defaults.
    (
        [DENY_ALL, {"allow": False, "type": "c", "major": 1, "minor": 5, "access": "w"}],
        [NULL_RW, ("c", 1, 5, READ)],
        [ZERO_W, ("c", 1, 5, READ | WRITE)],
    ),
    ([ALLOW_ALL], [DISK_R, KMEM_R, NULL_RW], []),
    (
        [ALLOW_ALL, {"allow": False, "type": "b", "access": "rwm"}],
        [KMEM_R, NULL_RW],
        [DISK_R, DISK_M],
    ),
    ([ALLOW_ALL, DENY_ALL], [NULL_RW], [DISK_R]),
    # The type left out means every type; numbers of -1 mean every number.
    (
        [{"allow": True, "access": "r", "major": 8, "minor": -1}],
        [DISK_R, ("c", 8, 3, READ)],
        [("b", 8, 0, WRITE), ("b", 9, 0, READ)],
    ),
    # Access left out means all of it.
    (
        [{"allow": True, "type": "b", "major": 8}],
        [("b", 8, 1, READ | WRITE | MKNOD)],
        [("b", 9, 1, READ)],
    ),
    # Order: the last one wins.
    (
        [
            {"allow": False, "type": "c", "major": 10, "minor": 229, "access": "rwm"},
            {"allow": True, "type": "c", "major": 10, "minor": 229, "access": "rw"},
        ],
        [FUSE_RW],
        [],
    ),
    (
        [
            {"allow": True, "type": "c", "major": 10, "minor": 229, "access": "rwm"},
            {"allow": False, "type": "c", "major": 10, "access": "rw"},
        ],
        [],
        [FUSE_RW],
    ),
]


@pytest.mark.parametrize(("entries", "yes", "no"), POLICIES)
def test_policy(entries: list[dict[str, Any]], yes: list[Request], no: list[Request]) -> None:
    wanted = policy(entries, WHERE)
    listing = in_v1(wanted)
    for request in yes:
        assert allowed(wanted, request), request
        assert listing.allows(request), request
    for request in no:
        assert not allowed(wanted, request), request
        assert not listing.allows(request), request


def test_the_v1_list_begins_empty() -> None:
    lines = [(file, line) for file, line, _ in lines_v1(policy([], WHERE))]
    assert lines[0] == ("devices.deny", "a")
    assert lines[1:] == [("devices.allow", rule.line()) for rule in default_rules()]
    assert ("devices.allow", "c 136:* rwm") in lines


def test_v1_lines_name_the_rule_they_come_from() -> None:
    entries = [DENY_ALL, {"allow": True, "type": "b", "major": 8, "minor": 1, "access": "r"}]
    assert lines_v1(policy(entries, WHERE))[-1] == (
        "devices.allow",
        "b 8:1 rm",  # mknod is allowed for all, and v1 wants it in one entry
        f"{WHERE}[1]",
    )


def test_a_device_that_is_allowed_again_can_be_made() -> None:
    """mknod(2) gives no access, and the runtime itself has to make the node."""
    fuse = {"type": "c", "major": 10, "minor": 229}
    entries = [DENY_ALL, {"allow": False, **fuse}, {"allow": True, **fuse, "access": "r"}]
    assert ("devices.allow", "c 10:229 rm", f"{WHERE}[2]") in lines_v1(policy(entries, WHERE))


def test_v1_cannot_take_a_part_out_of_a_rule() -> None:
    entries = [
        {"allow": True, "type": "c", "major": 10, "access": "rw"},
        {"allow": False, "type": "c", "major": 10, "minor": 229, "access": "w"},
    ]
    with pytest.raises(ConfigError, match=r"linux\.resources\.devices\[0\]") as caught:
        lines_v1(policy(entries, WHERE))
    assert caught.value.where == f"{WHERE}[1]"
    again = [ALLOW_ALL, {**entries[0], "allow": False}, {**entries[1], "allow": True}]
    with pytest.raises(ConfigError, match=r"devices that .*\[1\]"):
        lines_v1(policy(again, WHERE))


def test_in_v1_a_default_gives_way_to_a_denial_of_a_part() -> None:
    entries = [{"allow": False, "type": "c", "major": 10, "minor": 200, "access": "rwm"}]
    listing = in_v1(policy(entries, WHERE))
    assert not listing.allows(("c", 10, 200, MKNOD))
    assert listing.allows(NULL_RW)
    assert listing.allows(DISK_M)


@pytest.mark.parametrize(
    ("entry", "where", "words"),
    [
        ({"type": "c"}, "allow", "required"),
        ({"allow": True, "type": "p"}, "type", '"p"'),
        ({"allow": True, "access": "rx"}, "access", r"r \(read\), w \(write\)"),
        ({"allow": True, "major": 4096}, "major", "0 to 4095"),
        ({"allow": True, "major": -2}, "major", "0 to 4095"),
        ({"allow": True, "minor": 1 << 20}, "minor", "0 to 1048575"),
    ],
)
def test_refused(entry: dict[str, Any], where: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        policy([DENY_ALL, entry], WHERE)
    assert caught.value.where == f"{WHERE}[1].{where}"


@given(policies, requests)
def test_v1_lists_never_allow_more(wanted: DevicePolicy, request_: Request) -> None:
    """Kinds of access allowed by different rules may be refused in one; never the reverse."""
    try:
        listing = in_v1(wanted)
    except ConfigError:
        return
    if listing.allows(request_):
        assert allowed(wanted, request_)


@given(policies, requests)
def test_v1_lists_are_exact_for_one_kind_of_access(wanted: DevicePolicy, request_: Request) -> None:
    try:
        listing = in_v1(wanted)
    except ConfigError:
        return
    for bit in (MKNOD, READ, WRITE):
        single = (*request_[:3], bit)
        assert listing.allows(single) == allowed(wanted, single)


def test_rules_are_not_compared_each_with_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand would take a tenth of a second."""
    count = 500
    compared = 0
    covers = DeviceRule.covers

    def counting(self: DeviceRule, other: DeviceRule) -> bool:
        nonlocal compared
        compared += 1
        return covers(self, other)

    monkeypatch.setattr(DeviceRule, "covers", counting)
    rules = [{"allow": True, "type": "c", "major": 240, "minor": number} for number in range(count)]
    lines = lines_v1(policy([DENY_ALL, *rules], WHERE))
    assert sum("c 240:" in line for _, line, _ in lines) == count
    assert compared < 10 * count


def test_any_is_no_number() -> None:
    assert ANY < 0
