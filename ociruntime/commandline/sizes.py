"""Parse sizes (``50M``, ``1.5g``, ``512 KiB``) and numbers of CPUs (``1.5``, ``500m``)."""

from __future__ import annotations

from ociruntime.base.errors import UsageError

_UNITS = "kmgtp"
_ENDINGS = ("", "b", "i", "ib")
_HINT = "use bytes with an optional unit: 512, 50M, 1.5GiB; -1 is no limit"
CPU_RANGE = (10, 4096 * 1000)  # thousandths of a CPU
_DIGITS = frozenset("0123456789")


def byte_count(text: str, flag: str) -> int:
    """Convert an option's size to bytes; return -1 for ``-1``, which means unlimited.

    ``flag`` is the option's name.  Raises UsageError, in runc's wording, if the size is invalid.
    """
    try:
        return -1 if text == "-1" else parse_size(text)
    except ValueError:
        raise UsageError(f"invalid value for --{flag}: invalid size: '{text}'", _HINT) from None


def parse_size(text: str) -> int:
    """Convert a size to a number of bytes; units are powers of 1024.  Raises ValueError."""
    word = text.lower()
    number = word.rstrip("bikmgtp ")
    unit = word[len(number) :].lstrip(" ")
    factor = 1
    if unit and unit != "b":
        if unit[0] not in _UNITS or unit[1:] not in _ENDINGS:
            raise ValueError(text)
        factor = 1024 ** (_UNITS.index(unit[0]) + 1)
    whole, fraction = _decimal(number)
    size: int = int(whole + fraction) * factor // 10 ** len(fraction)
    if size >= 1 << 63:
        raise ValueError(text)
    return size


def milli_cpus(text: str, what: str) -> int:
    """Convert a number of CPUs (``500m``, ``1.5``, ``2``) to thousandths of a CPU, rounded down.

    Raises UsageError for an invalid number, or one outside ``CPU_RANGE``; the message begins with
    ``what``, the name of the option or isolator.
    """
    try:
        # ".5" and "1." are numbers of CPUs, too.
        whole, fraction = _decimal(f"0{text.removesuffix('m')}".removesuffix("."))
        if text.endswith("m") and fraction:
            raise ValueError(text)
    except ValueError:
        hint = "use a number such as 500m, 1.5, 2"
        raise UsageError(f'{what}: invalid number of CPUs "{text}"', hint) from None
    milli = int(whole) if text.endswith("m") else int(whole + f"{fraction}000"[:3])
    if not CPU_RANGE[0] <= milli <= CPU_RANGE[1]:
        raise UsageError(f'{what}: "{text}" is out of range', "use 10m to 4096")
    return milli


def _decimal(text: str) -> tuple[str, str]:
    """Split a decimal number into the digits before and after the point.  Raises ValueError."""
    whole, point, fraction = text.partition(".")
    # The limit of 18 digits suffices for every size that the kernel accepts.
    is_long = len(whole) > 18 or len(fraction) > 18
    if not whole or not _DIGITS.issuperset(whole + fraction) or (point and not fraction) or is_long:
        raise ValueError(text)
    return whole, fraction
