"""Durations as Go writes them: ``5s``, ``1m30s``, ``1.5h``, ``100ms``."""

from __future__ import annotations

from ociruntime.base.errors import UsageError

_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_DIGITS = "0123456789."
_LONGEST_NUMBER = 31  # characters


def seconds(text: str, flag: str) -> float:
    """Return how many seconds a duration has, more than none.  Raises UsageError."""
    if text in ("0", "+0", "-0") or text.startswith("-"):
        raise UsageError(f"--{flag} {text}: duration interval must be greater than 0")
    total, rest = 0.0, text.removeprefix("+")
    while rest:
        number, rest = _split(rest, digits=True)
        unit, rest = _split(rest, digits=False)
        is_number = number.strip(".") and number.count(".") < 2 and len(number) <= _LONGEST_NUMBER
        if unit not in _SECONDS or not is_number:
            break
        total += float(number) * _SECONDS[unit]
    else:
        if total > 0:
            return total
        if text.removeprefix("+"):
            raise UsageError(f"--{flag} {text}: duration interval must be greater than 0")
    raise UsageError(
        f'invalid value "{text}" for flag -{flag}', "a number and a unit: 5s, 1m30s, 100ms"
    )


def _split(text: str, *, digits: bool) -> tuple[str, str]:
    """Split a text behind its first characters that are digits and points, or are not."""
    at = 0
    while at < len(text) and (text[at] in _DIGITS) == digits:
        at += 1
    return text[:at], text[at:]
