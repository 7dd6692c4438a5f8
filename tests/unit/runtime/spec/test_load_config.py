"""Reading config.json: accepted inputs, besides the refusals of test_broken_bundles.py."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ociruntime.base.errors import ConfigError
from ociruntime.base.json_text import parse
from ociruntime.runtime.spec import load_config
from ociruntime.runtime.spec.default_config import default_config
from ociruntime.runtime.spec.load_config import parse_config, read
from tests.support.descriptors import open_descriptors

TEXT = json.dumps(default_config())


def test_blanks_around_the_document() -> None:
    assert parse_config(f"\n\t {TEXT}\r\n \n".encode()) == default_config()


def test_order_of_members_has_no_meaning() -> None:
    """JSON-03."""
    shuffled = dict(reversed(default_config().items()))
    assert parse_config(json.dumps(shuffled).encode()) == default_config()


@pytest.mark.parametrize(
    "text",
    [
        '{"a": {"x": 1}, "b": {"x": 1}}',
        '{"a": "{\\"a\\": 1, \\"a\\": 2}"}',
        '[{"a": 1}, {"a": 1}]',
    ],
)
def test_same_name_in_different_objects(text: str) -> None:
    assert parse(text.encode(), "x") == json.loads(text)


@pytest.mark.parametrize("text", ['{"a": 1, "\\u0061": 2}', '{"x": {"é": 1, "\\u00e9": 2}}'])
def test_same_name_in_different_spelling(text: str) -> None:
    """JSON-02: names are compared, not their spelling."""
    with pytest.raises(ConfigError, match=r"duplicate name .*line 1"):
        parse(text.encode(), "x")


@given(st.text(max_size=30))
def test_any_text_is_a_document_or_an_error(text: str) -> None:
    """Whatever the scanner does not take must be explained, never fall through."""
    try:
        expected = json.loads(text, parse_constant=int)  # int("NaN") fails
    except ValueError:
        with pytest.raises(ConfigError, match=r"^x (line \d+ column \d+:|is empty)"):
            parse(text.encode(errors="surrogatepass"), "x")
    else:
        assert parse(text.encode(), "x") == expected


FRAGMENTS = st.sampled_from(
    [
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        '"a"',
        '"b"',
        "1",
        "-",
        "0",
        "tru",
        "true",
        "NaN",
        "'",
        " ",
        "\n",
    ]
)


@given(st.lists(FRAGMENTS, max_size=12).map("".join))
def test_pieces_of_json_are_a_document_or_an_error(text: str) -> None:
    try:
        value = parse(text.encode(), "x")
    except ConfigError:
        return
    assert value == json.loads(text)


def test_unreadable_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r'read ".*": is a directory'):
        read(str(tmp_path))


def test_name_of_another_file_is_in_the_error() -> None:
    with pytest.raises(ConfigError, match=r"^other\.json line 1 column 2: "):
        parse_config(b"{,}", "other.json")


def test_largest_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_config, "LARGEST", len(TEXT))
    path = tmp_path / "config.json"
    path.write_text(TEXT)
    assert read(str(path)) == TEXT.encode()
    path.write_text(f"{TEXT} ")
    with pytest.raises(ConfigError, match="is larger than"):
        read(str(path))


def test_nothing_stays_open(tmp_path: Path) -> None:
    before = open_descriptors()
    for _ in range(3):
        with pytest.raises(ConfigError):
            read(str(tmp_path))
    assert open_descriptors() == before


def test_numbers_of_the_longest_accepted_kind() -> None:
    digits = "9" * sys.get_int_max_str_digits()
    assert parse(digits.encode(), "x") == int(digits)
