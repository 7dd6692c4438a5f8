from __future__ import annotations

from typing import Any

import pytest

from ociruntime.base.linux import S_IFBLK, S_IFCHR, S_IFIFO
from tests.unit.runtime.plan.compiling import compiled, config, steps

NULL = {"type": "c", "path": "/dev/null", "major": 1, "minor": 3}


def device(**values: object) -> dict[str, Any]:
    """The last device of a container with one listed."""
    plan = compiled(config(linux={"namespaces": [{"type": "mount"}], "devices": [values]}))
    return steps(plan, "device")[-1]


def test_listed() -> None:
    made = device(type="b", path="/dev/loop0", major=7, minor=1, fileMode=0o660, uid=1, gid=6)
    assert made == {
        "target": "/dev/loop0",
        "mode": S_IFBLK | 0o660,
        "major": 7,
        "minor": 1,
        "uid": 1,
        "gid": 6,
        "source": "/dev/loop0",
    }


@pytest.mark.parametrize(
    ("kind", "mode"), [("c", S_IFCHR), ("u", S_IFCHR), ("b", S_IFBLK), ("p", S_IFIFO)]
)
def test_types(kind: str, mode: int) -> None:
    made = device(type=kind, path="/x//y", major=1, minor=3)
    assert made["mode"] == mode | 0o666
    assert made["target"] == "/x/y"


def test_only_a_node_can_be_bound_from_the_host() -> None:
    assert device(type="p", path="/x")["source"] == ""


def test_file_type_bits_in_the_mode_are_left_out() -> None:
    assert device(type="b", path="/x", major=1, minor=1, fileMode=0o60660)["mode"] == 0o60660
    assert device(type="c", path="/x", major=1, minor=1, fileMode=0o60660)["mode"] == 0o20660


def test_listed_default_is_made_once() -> None:
    plan = compiled(config(linux={"devices": [{**NULL, "gid": 4}]}))
    made = [one for one in steps(plan, "device") if one["target"] == "/dev/null"]
    assert [one["gid"] for one in made] == [4]


def test_links_never_replace_those_of_a_bound_dev() -> None:
    bound = {"destination": "/dev/", "source": "/dev", "options": ["rbind"]}
    own = {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"}
    for mounts, replace in (
        ([bound], 0),
        ([own], 1),
        ([own, bound], 0),
        ([bound, own], 1),
        ([], 1),
    ):
        links = steps(compiled(config(mounts=mounts)), "symlink")
        assert links[0] == {
            "target": "/dev/ptmx",
            "text": "pts/ptmx",
            "requires": "",
            "replace": replace,
        }
        assert {link["replace"] for link in links[1:]} == {0}
