"""Times in the output of commands."""

from __future__ import annotations

import time

_UNITS = (("year", 31557600), ("month", 2629800), ("week", 604800), ("day", 86400),
          ("hour", 3600), ("minute", 60), ("second", 1))  # fmt: skip


def date(seconds: int | None) -> str:
    """Format a time in full, in the local time zone; empty for no time."""
    if seconds is None:
        return ""
    return time.strftime("%Y-%m-%d %H:%M:%S %z %Z", time.localtime(seconds))


def ago(seconds: int | None, now: float | None = None) -> str:
    """``3 minutes ago``; empty for no time."""
    if seconds is None:
        return ""
    passed = int((time.time() if now is None else now) - seconds)
    for name, length in _UNITS:
        if passed >= length:
            count = passed // length
            return f"{count} {name}{'s' if count > 1 else ''} ago"
    return "now"
