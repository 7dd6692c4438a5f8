"""The small JSON writer writes what the large one writes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ociruntime.spec.json_text import dump

VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_one_line(value: object) -> None:
    assert dump(value) == json.dumps(value, separators=(",", ":"))


@given(VALUES, st.sampled_from([1, 2, 4, "\t"]))
def test_indented(value: object, indent: int | str) -> None:
    assert dump(value, indent) == json.dumps(value, indent=indent)


def test_order_of_members_is_kept() -> None:
    assert dump({"z": 1, "a": (2, True)}) == '{"z":1,"a":[2,true]}'


def test_other_types_are_refused() -> None:
    with pytest.raises(TypeError, match="no JSON for bytes"):
        dump({"x": b"y"})
