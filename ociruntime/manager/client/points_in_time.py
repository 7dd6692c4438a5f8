"""Times on the command line: ``10m`` (ago), a date, or seconds since 1970."""

from __future__ import annotations

import time

from ociruntime.base.errors import UsageError


def moment(text: str, option: str, now: float | None = None) -> str | None:
    """Return a time as RFC 3339, None for an empty text; without a zone it is local.

    Raises UsageError.
    """
    if not text:
        return None
    if text.replace(".", "", 1).isdecimal():
        return _text(float(text))
    if text[:4].isdecimal() and "-" in text[4:5]:
        return _date(text, option)
    from ociruntime.commandline.durations import seconds

    try:
        return _text((time.time() if now is None else now) - seconds(text, option))
    except UsageError:
        raise _wrong(text, option) from None


def _date(text: str, option: str) -> str:
    from datetime import datetime

    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise _wrong(text, option) from None
    return _text(found.timestamp())  # a time without a zone is taken as local


def _text(seconds: float) -> str:
    try:
        whole, rest = divmod(round(seconds * 1_000_000), 1_000_000)
        return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{rest:06d}+00:00"
    except (OverflowError, ValueError, OSError):
        raise UsageError(f"time out of range: {seconds}") from None


def _wrong(text: str, option: str) -> UsageError:
    return UsageError(
        f'--{option}: "{text}" is not a time', "10m, 2026-01-31, 2026-01-31T12:00:00Z, or seconds"
    )
