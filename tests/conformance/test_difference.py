"""The search for differences is repeatable, and reduces each difference to a minimal config."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from conformance.difference import known
from conformance.difference.command import Hunt, differing
from conformance.difference.configs import generate, smaller
from conformance.difference.edits import Edit, Edits, edit
from conformance.difference.known import Known
from conformance.difference.observe import Facts
from conformance.template import config

COUNT = 300


def configs() -> list[Edits]:
    return [generate(random.Random(f"7/{number}")) for number in range(COUNT)]


def applied(edits: Edits) -> dict[str, object]:
    document = config("1.3.0", "/x", rootless=False)
    for one in edits:
        one.apply(document)
    return document


def test_the_same_seed_makes_the_same_configs() -> None:
    assert configs() == configs()
    assert len(set(configs())) > COUNT * 0.9


def test_nothing_is_said_twice() -> None:
    for edits in configs():
        document = applied(edits)
        namespaces = [one["type"] for one in document["linux"]["namespaces"]]  # type: ignore[index]
        assert len(set(namespaces)) == len(namespaces)
        limits = [one["type"] for one in document["process"].get("rlimits", [])]  # type: ignore[attr-defined]
        assert len(set(limits)) == len(limits)


def test_smaller_ones_are_smaller() -> None:
    for edits in configs():
        size = len(str(edits))
        assert all(len(str(one)) < size for one in smaller(edits))
        assert () in smaller(edits) or len(edits) > 1


def test_edits() -> None:
    document = applied(
        (
            edit("hostname", "set", "x"),
            edit("process.env", "append", "A=1"),
            edit("linux.namespaces", "remove", {"type": "uts"}),
            edit("linux.devices", "append", {"path": "/dev/x"}),
        )
    )
    assert document["hostname"] == "x"
    assert "uts" not in str(document["linux"])
    assert "A=1" in str(document["process"])


class Imagined(Hunt):
    """Two fake runtimes, one of which ignores the umask if a host name is set."""

    def __init__(self) -> None:
        self.asked = 0

    def observe(self, configs: Sequence[Edits]) -> list[dict[str, Facts]]:
        self.asked += len(configs)
        return [{"umask": {"a": 1, "b": 2}} if self.differs(one) else {} for one in configs]

    @staticmethod
    def differs(edits: Edits) -> bool:
        words = " ".join(map(str, edits))
        return "umask" in words and "hostname" in words


def test_shrinking() -> None:
    user = {"uid": 5, "gid": 5, "umask": 7, "additionalGids": [1, 2]}
    mount = {"destination": "/x", "options": ["ro", "nosuid"]}
    edits: tuple[Edit, ...] = (
        edit("mounts", "append", mount),
        edit("process.user", "set", user),
        edit("process.env", "append", "A=1"),
        edit("hostname", "set", "box"),
    )
    small = Imagined().shrink(edits, "umask")
    assert small[1] == edit("hostname", "set", "box")
    assert small[0].where == ("process", "user")
    assert small[0].value == {"umask": 7}


def test_a_refusal_hides_all_else() -> None:
    refused = {"result": "create fails", "message": "no"}
    assert differing({"a": {"result": "runs", "umask": 1}, "b": refused}) == {
        "result": {"a": "runs", "b": "create fails no"}
    }


def test_messages_are_not_compared() -> None:
    one, two = ({"result": "create fails", "message": word} for word in "xy")
    assert differing({"a": one, "b": two}) == {}


def test_facts_are_compared() -> None:
    found = differing({"a": {"result": "runs", "x": [1]}, "b": {"result": "runs", "x": [2]}})
    assert found == {"x": {"a": [1], "b": [2]}}


def test_what_is_known_of_a_place() -> None:
    """A known difference applies only to that mount, and only with a user namespace."""
    one = Known(
        r"mount /(?P<place>[a-z.]+)\.options",
        "crun .*",
        "r",
        ['"type": "user"', '^mounts.*"/(?P=place)"'],
        "rw",
    )
    user = edit("linux.namespaces", "append", {"type": "user"})
    mount = edit("mounts", "append", {"destination": "/a.b"})
    assert one.excuses("mount /a.b.options", "crun 1", "rw", (user, mount))
    assert one.excuses("mount /a.b.options", "crun 1 (/opt/crun)", "rw", (user, mount))
    assert not one.excuses("mount /aub.options", "crun 1", "rw", (user, mount))
    assert not one.excuses("mount /a.b.options", "crun 1", "ro", (user, mount))
    assert not one.excuses("mount /a.b.options", "runc 1", "rw", (user, mount))
    assert not one.excuses("mount /a.b.options", "crun 1", "rw", (mount,))
    assert not one.excuses("mount /a.b.options", "crun 1", "rw", (user,))


def test_the_list_of_known_differences() -> None:
    for one in known.load():
        assert one.reason
        groups = "".join(f"(?P<{name}>)" for name in re.compile(one.facts).groupindex)
        for pattern in one.patterns:
            re.compile(groups + pattern)
