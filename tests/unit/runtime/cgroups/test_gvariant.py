from __future__ import annotations

from typing import Any

import pytest

from ociruntime.runtime.cgroups.gvariant import Malformed, parse

GOOD: list[tuple[str, str, Any]] = [
    ("true", "b", True),
    (" false ", "b", False),
    ("5", "i", 5),
    ("-5", "i", -5),
    ("+5", "i", 5),
    ("0x1f", "i", 31),
    ("017", "i", 15),
    ("0", "i", 0),
    ("1.5", "d", 1.5),
    ("1e3", "d", 1000.0),
    ("inf", "d", float("inf")),
    ("uint64 5", "t", 5),
    ("uint64 18446744073709551615", "t", (1 << 64) - 1),
    ("byte 0xff", "y", 255),
    ("int16 -1", "n", -1),
    ("double 3", "d", 3.0),
    ("boolean true", "b", True),
    ("@t 5", "t", 5),
    ("@u 5", "u", 5),
    ("'a'", "s", "a"),
    ('"a"', "s", "a"),
    ("'it\\'s'", "s", "it's"),
    ('"\\t\\u00e4\\U0001f600\\\\"', "s", "\tä\U0001f600\\"),
    ("objectpath '/a/b'", "o", "/a/b"),
    ("@g 'a{sv}'", "g", "a{sv}"),
    ("b'ab'", "ay", b"ab\0"),
    ("['a', 'b']", "as", ["a", "b"]),
    ("['a',]", "as", ["a"]),
    ("[uint64 1, 2]", "at", [1, 2]),
    ("@as []", "as", []),
    ("@at [1, 2]", "at", [1, 2]),
    ("[[1], [2, 3]]", "aai", [[1], [2, 3]]),
    ("('a', 5)", "(si)", ("a", 5)),
    ("(5,)", "(i)", (5,)),
    ("@a(st) [('/dev/null', 5)]", "a(st)", [("/dev/null", 5)]),
    ("[('/dev/null', 'rw')]", "a(ss)", [("/dev/null", "rw")]),
    ("{'a': 5, 'b': 6}", "a{si}", {"a": 5, "b": 6}),
    ("@a{sv} {'a': <5>}", "a{sv}", {"a": ("i", 5)}),
    ("@a{sv} {}", "a{sv}", {}),
    ("<'a'>", "v", ("s", "a")),
]


@pytest.mark.parametrize(("text", "signature", "value"), GOOD)
def test_values(text: str, signature: str, value: object) -> None:
    found = parse(text)
    assert found == (signature, value)
    assert type(found[1]) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yes",
        "1_000",
        "++5",
        "5 6",
        "'a",
        "'\\u00'",
        "'\\u0000'",
        "'\\ud800'",
        "b'\\udfff'",
        "double 1" + "0" * 400,
        "2147483648",
        "byte 256",
        "uint64 -1",
        "uint64 'a'",
        "string 5",
        "uint64 1.5",
        "[]",
        "{}",
        "()",
        "[1, 'a']",
        "['a' 'b']",
        "['a'",
        "{'a' 5}",
        "{[1]: 5}",
        "@(st) ('a',)",
        "@(s) ('a', 'b')",
        "@z 5",
        "@() 5",
        "@a",
        "@t uint32 5",
        "nothing",
        "[" * 100,
        "@" + "a" * 100 + "s []",
        "<5",
        "$",
        "objectpath 'a'",
        "objectpath '/a/'",
        "objectpath '/a//b'",
        "objectpath '/\u00e9'",
        "['x', objectpath '']",
        "signature 'z'",
        "signature 'a'",
        f"signature '{256 * 's'}'",
        f"0x{4000 * 'f'}",
    ],
)
def test_malformed(text: str) -> None:
    with pytest.raises(Malformed):
        parse(text)
