"""Parse durations in Go's syntax: ``5s``, ``1m30s``, ``1.5h``, ``100ms``, ``0``."""

from __future__ import annotations

from ociruntime.base.errors import UsageError

_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_DIGITS = "0123456789."
_LONGEST_NUMBER = 15  # characters
_HINT = "use numbers with units, such as 30m, 2s, 1h30m, 100ms"
FOREVER = float("inf")


def interval(text: str, option: str) -> float:
    """Convert ``text``, the value of ``--OPTION``, to seconds; the duration must be positive.

    Raises UsageError, in runc's wording, if the duration is malformed, zero or negative.
    """
    seconds = _parse(text)
    if seconds is None:
        raise UsageError(f'invalid value "{text}" for flag -{option}', _HINT)
    if seconds <= 0:
        raise UsageError(f"--{option} {text}: duration interval must be greater than 0")
    return seconds


def period(text: str, option: str) -> float:
    """Convert ``text``, the value of ``--OPTION``, to seconds; the duration may be 0.

    Raises UsageError if the duration is malformed or negative.
    """
    seconds = _seconds(text, option)
    if seconds < 0:
        raise UsageError(f"--{option} {text}: must not be negative")
    return seconds


def timeout(text: str, option: str) -> float:
    """Convert ``text``, the value of ``--OPTION``, to a timeout in seconds.

    Returns FOREVER for ``true`` or a negative duration, and 0 for ``false`` or "".  Raises
    UsageError if the duration is malformed.
    """
    if text in ("", "false"):
        return 0
    if text == "true":
        return FOREVER
    seconds = _seconds(text, option)
    return FOREVER if seconds < 0 else seconds


def _seconds(text: str, option: str) -> float:
    seconds = _parse(text)
    if seconds is None:
        raise UsageError(f'invalid duration "{text}" for --{option}', _HINT)
    return seconds


def _parse(text: str) -> float | None:
    """Convert a duration to seconds; return None if it is malformed.  Only ``0`` needs no unit."""
    remainder = text[1:] if text[:1] in ("+", "-") else text
    if remainder == "0":
        return 0
    if not remainder:
        return None
    total = 0.0
    while remainder:
        number, remainder = _split(remainder, digits=True)
        unit, remainder = _split(remainder, digits=False)
        is_number = number.strip(".") and number.count(".") < 2 and len(number) <= _LONGEST_NUMBER
        if unit not in _SECONDS or not is_number:
            return None
        total += float(number) * _SECONDS[unit]
    return -total if text[0] == "-" else total


def _split(text: str, *, digits: bool) -> tuple[str, str]:
    """Split ``text`` where its leading digits and points end; return both parts.

    If ``digits`` is False, splits it before the first digit or point instead.
    """
    at = 0
    while at < len(text) and (text[at] in _DIGITS) == digits:
        at += 1
    return text[:at], text[at:]
