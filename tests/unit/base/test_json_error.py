"""Errors of JSON documents: cause and place."""

from __future__ import annotations

import pytest

from ociruntime.base.json_error import explain


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ('{"a": 1, b: 2}', "line 1 column 10", "key in double"),
        ('{"a": "x\ny"}', "line 1 column 9", "control character"),
        ('{\n"a": "x}', "line 2 column 6", "unterminated string"),
        ('{"a": 1 "b": 2}', "line 1 column 9", "a comma"),
        ('{"a": tru}', "line 1 column 7", "expecting value"),
        ('{"a": {"b": 1}, "c": [1],\n"a": 2}', "line 2 column 1", 'name "a"'),
        ('{"a": {"a": 1}, "b": [{"a": 1}], "c": NaN}', "line 1 column 39", "NaN"),
        ('{"a": [-Infinity]}', "line 1 column 8", "-Infinity"),
    ],
)
def test_place_and_cause(text: str, place: str, words: str) -> None:
    """The same name in another object is no duplicate."""
    error = explain(text.encode(), "config.json")
    assert "config.json" in str(error)
    assert place in str(error)
    assert words in str(error)


def test_nothing_found() -> None:
    """A document with no error at all still gets one: the caller has refused it."""
    assert explain(b"{}", "config.json").message.startswith("config.json ")
