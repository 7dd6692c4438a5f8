"""Versions of the specification: the syntax of SemVer 2.0.0 and the versions supported."""

from __future__ import annotations

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.spec.state import SPEC_VERSION

OLDEST = "1.0.0"
NEWEST = SPEC_VERSION

_DIGITS = frozenset("0123456789")
_LETTERS = frozenset("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-")


def check_version(version: str) -> list[str]:
    """Accept any 1.x (CFG-VER-03), with a warning if it is newer than what is known here."""
    numbers = parse(version)
    if numbers is None:
        hint = "three numbers with dots, as in 1.2.1 or 1.0.2-dev"
        raise ConfigError("ociVersion", f'"{version}" is not a semantic version', hint)
    known = parse(NEWEST) or (1, 0, 0)
    if numbers[0] != known[0]:
        hint = f"supported: {OLDEST[:3]} to {NEWEST[:3]}"
        raise ConfigError("ociVersion", f"unsupported ociVersion {version}", hint)
    if numbers[1] > known[1]:
        newer = f"ociVersion {version} is newer than {NEWEST}"
        return [f"{newer}: what it added is not understood and left out"]
    return []


def parse(version: str) -> tuple[int, int, int] | None:
    """(major, minor, patch), or None if the text is no semantic version."""
    core, plus, build = version.partition("+")
    core, dash, prerelease = core.partition("-")
    numbers = core.split(".")
    if len(numbers) != 3 or not all(_is_number(number) for number in numbers):
        return None
    if plus and not all(_is_word(word) for word in build.split(".")):
        return None
    if dash and not all(
        _is_word(word) and (not _DIGITS.issuperset(word) or _is_number(word))
        for word in prerelease.split(".")
    ):
        return None
    return int(numbers[0]), int(numbers[1]), int(numbers[2])


def _is_number(text: str) -> bool:
    return 0 < len(text) < 19 and _DIGITS.issuperset(text) and (text == "0" or text[0] != "0")


def _is_word(text: str) -> bool:
    return bool(text) and _LETTERS.issuperset(text)
