"""Sizes as people write them: ``50M``, ``1.5g``, ``512 KiB``, ``-1``."""

from __future__ import annotations

from ociruntime.base.errors import UsageError

_UNITS = "kmgtp"
_ENDINGS = ("", "b", "ib")
_HINT = "bytes, optionally with a unit: 512, 50M, 1.5GiB; -1 is no limit"
_DIGITS = frozenset("0123456789")


def byte_count(text: str, flag: str) -> int:
    """Parse a size to a number of bytes; units are powers of 1024, as with runc and Docker.

    Raises UsageError.
    """
    if text == "-1":
        return -1
    word = text.lower()
    number = word.rstrip("bikmgtp ")
    unit = word[len(number) :].lstrip(" ")
    factor = 1
    if unit and unit != "b":
        if unit[0] not in _UNITS or unit[1:] not in _ENDINGS:
            raise _invalid(text, flag)
        factor = 1024 ** (_UNITS.index(unit[0]) + 1)
    whole, point, fraction = number.partition(".")
    if not whole or not _DIGITS.issuperset(whole + fraction) or (point and not fraction):
        raise _invalid(text, flag)
    # 18 digits suffice for every size that the kernel accepts.
    if len(whole) > 18 or len(fraction) > 18:
        raise _invalid(text, flag)
    size: int = int(whole + fraction) * factor // 10 ** len(fraction)
    if size >= 1 << 63:
        raise _invalid(text, flag)
    return size


def _invalid(text: str, flag: str) -> UsageError:
    return UsageError(f"invalid value for --{flag}: invalid size: '{text}'", _HINT)
