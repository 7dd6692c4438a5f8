"""Durations on the command line: ``30m``, ``2s``, ``1h30m``, ``1.5h``, ``100ms``, ``0``."""

from __future__ import annotations

from ociruntime.base.errors import UsageError

# "ms" must precede "m": the first match counts.
_UNITS = (("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9), ("s", 1.0), ("m", 60.0), ("h", 3600.0))
FOREVER = float("inf")


def period(text: str, option: str) -> float:
    """Parse a duration into seconds, 0 or more.  Raises UsageError."""
    seconds = _seconds(text, option)
    if seconds < 0:
        raise UsageError(f"--{option} {text}: must not be negative")
    return seconds


def timeout(text: str, option: str) -> float:
    """Parse a timeout into seconds; ``true`` or a negative duration means FOREVER, ``false`` 0.

    Raises UsageError.
    """
    if text in ("", "false"):
        return 0
    if text == "true":
        return FOREVER
    seconds = _seconds(text, option)
    return FOREVER if seconds < 0 else seconds


def _seconds(text: str, option: str) -> float:
    rest = text.removeprefix("-").removeprefix("+")
    sign = -1 if text.startswith("-") else 1
    if rest == "0":
        return 0
    total = 0.0
    while rest:
        digits = len(rest) - len(rest.lstrip("0123456789."))
        number, rest = rest[:digits], rest[digits:]
        unit = next((unit for unit in _UNITS if rest.startswith(unit[0])), None)
        if unit is None or not number.replace(".", "", 1).isdigit() or digits > 15:
            raise _wrong(text, option)
        total += float(number) * unit[1]
        rest = rest[len(unit[0]) :]
    if text.strip("+-") == "":
        raise _wrong(text, option)
    return sign * total


def _wrong(text: str, option: str) -> UsageError:
    return UsageError(
        f'invalid duration "{text}" for --{option}', "numbers with units: 30m, 2s, 1h30m, 100ms"
    )
