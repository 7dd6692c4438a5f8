"""Images that image gc removes, and allowed extended attributes."""

from __future__ import annotations

import pytest

from ociruntime.images.model.image import Record
from ociruntime.images.store.unused_images import garbage
from ociruntime.images.tar.file_attributes import AttributeWarnings, refusal
from ociruntime.images.unpack.tree_store import Tree

NOW = 1000.0


def record(id: str, used: float) -> Record:
    return Record(id, id, (id,), 1, 0, used, "")


OLD, NEW = record("old", 500), record("new", 999)
TREES = [Tree("t-old", True, 1), Tree("t-new", True, 1), Tree("t-none", True, 1)]
TREE_OF = {"old": "t-old", "new": "t-new"}


@pytest.mark.parametrize(
    ("images", "trees", "grace", "expected"),
    [
        (set(), set(), 100, ({"old"}, {"t-old", "t-none"})),
        (set(), set(), 0, ({"old", "new"}, {"t-old", "t-new", "t-none"})),
        (set(), set(), 600, (set(), {"t-none"})),
        ({"old"}, {"t-old"}, 100, (set(), {"t-none"})),
        ({"old"}, set(), 100, (set(), {"t-old", "t-none"})),
        ({"old", "new"}, {"t-old", "t-new", "t-none"}, 0, (set(), set())),
        (set(), {"t-old"}, 0, ({"old", "new"}, {"t-new", "t-none"})),
    ],
)
def test_rubbish(
    images: set[str], trees: set[str], grace: float, expected: tuple[set[str], set[str]]
) -> None:
    found = garbage([OLD, NEW], TREES, TREE_OF, images, trees, NOW - grace)
    assert ({one.id for one in found.images}, {one.id for one in found.trees}) == expected


def test_half_a_tree_is_rubbish() -> None:
    half = [Tree("t-new", False, 0)]
    assert garbage([NEW], half, TREE_OF, set(), set(), NOW - 100).trees == tuple(half)
    assert garbage([NEW], half, TREE_OF, set(), {"t-new"}, NOW - 100).trees == ()


def test_a_shared_tree_stays_for_the_image_that_was_used() -> None:
    shared = {"old": "t", "new": "t"}
    found = garbage([OLD, NEW], [Tree("t", True, 1)], shared, set(), set(), NOW - 100)
    assert [one.id for one in found.images] == ["old"]
    assert found.trees == ()


@pytest.mark.parametrize(
    "name", ["user.x", "security.capability", "system.posix_acl_access", "user.overlayed"]
)
def test_attributes_that_files_may_have(name: str) -> None:
    assert refusal(name) == ""


@pytest.mark.parametrize(
    "name",
    [
        "trusted.overlay.opaque",
        "user.overlay.opaque",
        "trusted.x",
        "security.selinux",
        "security.capability2",
        "system.nfs4_acl",
        "x",
        "",
    ],
)
def test_attributes_that_they_may_not_have(name: str) -> None:
    assert refusal(name)


def test_notes_are_one_line_a_reason() -> None:
    warnings = AttributeWarnings()
    for name in ("a", "b", "c"):
        warnings.add("x", "why", name)
    warnings.add("y", "why", "d")
    assert warnings.lines() == [
        'ignored x of "a" and 2 more: why',
        'ignored y of "d": why',
    ]
