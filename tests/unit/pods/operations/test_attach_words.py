"""Arguments of ``attach``: modes and detach keys."""

from __future__ import annotations

import pytest

from ociruntime.base.detach_keys import DETACH_KEYS, KeyWatch, parse_keys
from ociruntime.base.errors import UsageError
from ociruntime.pods.operations.attach_client import parse_mode


@pytest.mark.parametrize(
    ("text", "streams"),
    [
        ("", []),
        ("auto", []),
        ("stdout", ["stdout"]),
        ("stderr,stdin", ["stdin", "stderr"]),
        ("tty", ["stdin", "stdout", "stderr"]),
        ("tty-in,tty-out", ["stdin", "stdout"]),
        ("tty-out", ["stdout"]),
    ],
)
def test_modes(text: str, streams: list[str]) -> None:
    assert parse_mode(text) == streams


@pytest.mark.parametrize("text", ["tty,stdin", "list", "stdout,", "x"])
def test_wrong_modes(text: str) -> None:
    with pytest.raises(UsageError, match="--mode"):
        parse_mode(text)


def test_keys() -> None:
    assert parse_keys(DETACH_KEYS) == b"\x10\x11"
    assert parse_keys("a,ctrl-[,ctrl-Z") == b"a\x1b\x1a"
    assert parse_keys("") == b""
    for text in ("ctrl-", "ab", "ctrl-1", "ü"):
        with pytest.raises(UsageError, match="--detach-keys"):
            parse_keys(text)


def test_watching() -> None:
    watch = KeyWatch(b"\x10\x11")
    assert watch.pass_on(b"abc") == b"abc"
    assert watch.pass_on(b"\x10") == b""
    assert watch.pass_on(b"x\x10") == b"\x10x"
    assert watch.pass_on(b"\x10\x10y") == b"\x10\x10\x10y"
    assert watch.pass_on(b"z\x10\x11rest") == b"z"
    assert watch.detaching
    assert KeyWatch(b"").pass_on(b"\x10\x11") == b"\x10\x11"
