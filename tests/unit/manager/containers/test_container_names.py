"""Names of containers, and references to them."""

from __future__ import annotations

import pytest

from ociruntime.base.errors import BadRequest, Conflict, NotFound
from ociruntime.manager.containers import container_names

ONE, OTHER = "ab" * 32, "ac" * 32


def in_use() -> container_names.Names:
    found = container_names.Names()
    for name in ("web", "ac"):
        found.add(name, ONE)
    return found


@pytest.mark.parametrize(
    ("ref", "found"),
    [("web", ONE), (ONE, ONE), ("ab", ONE), ("aca", OTHER), (OTHER, OTHER), ("ac", ONE)],
)
def test_references(ref: str, found: str) -> None:
    """A name takes precedence over an id's prefix."""
    assert in_use().resolve(ref, [ONE, OTHER]) == found


@pytest.mark.parametrize(
    ("ref", "why"), [("a", "2 containers"), ("", "no container"), ("we", "no container")]
)
def test_references_that_mean_nothing(ref: str, why: str) -> None:
    with pytest.raises(NotFound, match=why):
        in_use().resolve(ref, [ONE, OTHER])


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "0", "x" * 128])
def test_names(name: str) -> None:
    assert container_names.check_name("name", name) == name


@pytest.mark.parametrize("name", ["", "-a", "_a", "a/b", "a b", "ä", "x" * 129, ONE, None, 7])
def test_what_is_no_name(name: object) -> None:
    with pytest.raises(BadRequest, match=r"^name: "):
        container_names.check_name("name", name)


def test_new_names_are_new() -> None:
    taken: set[str] = set()
    for _ in range(200):
        name = container_names.new_name(taken)
        assert name not in taken
        taken.add(container_names.check_name("name", name))
    assert container_names.is_id(container_names.new_id())


def test_a_name_in_use() -> None:
    taken = container_names.Names()
    taken.reserve("web", ONE)
    with pytest.raises(Conflict, match=f'"web" .*"{ONE[:12]}"'):
        taken.reserve("web", OTHER)
    taken.release("web", OTHER)
    assert "web" in taken
    assert taken.resolve("web", [ONE]) == ONE
    with pytest.raises(NotFound):  # reserved for a container that is still being created
        taken.resolve("web", [OTHER])
    taken.release("web", ONE)
    assert "web" not in taken
