"""The small JSON reader and writer behave like those of ``json``."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ociruntime.base.json_text import dump, load, read

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
    with pytest.raises(TypeError, match="bytes"):
        dump({"x": b"y"})


@given(VALUES)
def test_reading(value: object) -> None:
    text = json.dumps(value)
    assert read(f" {text}\n".encode()) == load(text.encode("utf-16")) == value


@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
def test_what_is_no_number_in_json(number: str) -> None:
    assert dump(float(number)) == json.dumps(float(number))
    assert repr(load(dump([float(number)]).encode())) == f"[{number}]"


@pytest.mark.parametrize("text", [b"", b"{", b"1 2", b"\xff", b"[" * 100_000])
def test_what_is_no_json(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"JSON|decode|Expecting"):
        read(text)
    with pytest.raises((ValueError, RecursionError)):
        load(text)
