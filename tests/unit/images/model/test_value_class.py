"""Values that do not change."""

from __future__ import annotations

import pytest

from ociruntime.images.model.value_class import changed, frozen


@frozen
class Point:
    x: int
    y: int = 2


@frozen
class Other:
    x: int
    y: int = 2


def test_members_by_place_and_by_name() -> None:
    assert Point(1) == Point(1, 2) == Point(y=2, x=1)
    others: list[object] = [Point(2), Other(1)]
    assert Point(1) not in others
    assert repr(Point(y=2, x=1)) == repr(Point(1))
    assert len({Point(1), Point(1, 2), Point(3)}) == 2
    assert repr(Point(1)) == "Point(x=1, y=2)"


def test_nothing_can_be_changed() -> None:
    point = Point(1)
    with pytest.raises(AttributeError, match=r"Point\.x cannot be changed"):
        point.x = 2  # type: ignore[misc]
    assert changed(point, y=5) == Point(1, 5)
    assert point == Point(1)


def test_wrong_members() -> None:
    with pytest.raises(TypeError, match="Point has the members x, y"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="Point has the members x, y"):
        Point(1, 2, 3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="Point has the members x, y"):
        changed(Point(1), z=3)
