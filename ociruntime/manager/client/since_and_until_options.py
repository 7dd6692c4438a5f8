"""The times of the options ``--since`` and ``--until`` of ``logs`` and ``events``."""

from __future__ import annotations

import time

from ociruntime.base.errors import UsageError
from ociruntime.commandline.durations import interval


def moment(text: str, option: str, now: float | None = None) -> str | None:
    """Convert ``text``, a value of ``--since`` or ``--until``, to RFC 3339; None for "".

    ``text`` is a date (local time, unless it has a zone), seconds since the epoch, or a duration
    before ``now`` (default: the current time).  Raises UsageError for an invalid time.
    """
    if not text:
        return None
    if text.replace(".", "", 1).isdecimal():
        return _rfc3339(float(text))
    if text[:4].isdecimal() and "-" in text[4:5]:
        return _parse_date(text, option)
    if text in ("0s", "0m", "0h"):  # in docker: now
        return _rfc3339(time.time() if now is None else now)
    try:
        return _rfc3339((time.time() if now is None else now) - interval(text, option))
    except UsageError:
        raise _wrong(text, option) from None


def _parse_date(text: str, option: str) -> str:
    from datetime import datetime

    try:
        time_read = datetime.fromisoformat(text)
    except ValueError:
        raise _wrong(text, option) from None
    return _rfc3339(time_read.timestamp())  # a time without a zone is local time


def _rfc3339(seconds: float) -> str:
    try:
        whole, microseconds = divmod(round(seconds * 1_000_000), 1_000_000)
        return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{microseconds:06d}+00:00"
    except (OverflowError, ValueError, OSError):
        raise UsageError(
            f"invalid time: {seconds} seconds since 1970-01-01 is out of range"
        ) from None


def _wrong(text: str, option: str) -> UsageError:
    return UsageError(
        f'--{option}: invalid time "{text}"',
        "use 10m, 2026-01-31, 2026-01-31T12:00:00Z, or seconds since 1970",
    )
