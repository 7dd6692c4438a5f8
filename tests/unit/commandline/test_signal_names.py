"""Signals on the command line."""

from __future__ import annotations

import pytest

from ociruntime.base.errors import UsageError
from ociruntime.commandline.signal_names import signal_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("9", 9),
        ("0", 0),
        ("64", 64),
        ("KILL", 9),
        ("SIGKILL", 9),
        ("sigkill", 9),
        ("Term", 15),
        ("SIGRTMIN", 34),
        ("RTMIN+3", 37),
        ("sigrtmin+3", 37),
        ("SIGRTMAX", 64),
        ("SIGRTMAX-2", 62),
        ("SIGRTMIN+30", 64),
    ],
)
def test_known(text: str, number: int) -> None:
    assert signal_number(text) == number


@pytest.mark.parametrize(
    "text",
    [
        *("FOO", "", "-9", "65", "99999999999", "9.0", "\u0661", "SIG", "SIGSIGKILL"),
        *("SIGRTMIN+31", "SIGRTMIN-1", "SIGRTMAX+1", "SIGRTMIN+", "SIGRTMIN+x", "RTMIN+999999"),
    ],
)
def test_unknown(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        signal_number(text)
    assert str(caught.value).startswith(f'unknown signal "{text}"')


def test_near_miss() -> None:
    with pytest.raises(UsageError) as caught:
        signal_number("KIL")
    assert caught.value.hint == "did you mean SIGKILL?"


def test_a_name_that_is_near_none_is_not_guessed_at() -> None:
    """The common prefix SIG does not make names similar."""
    for text in ("FOO", "SIGFOO", "XYZ"):
        with pytest.raises(UsageError) as caught:
            signal_number(text)
        assert text in caught.value.message
        assert "did you mean" not in caught.value.hint
