"""Durations as Go writes them: ``5s``, ``1m30s``, ``1.5h``, ``100ms``."""

from __future__ import annotations

from ociruntime.errors import UsageError

_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_PART = r"([0-9]{1,15}\.?[0-9]{0,15}|\.[0-9]{1,15})(ns|us|µs|μs|ms|s|m|h)"


def seconds(text: str, flag: str) -> float:
    """How many seconds, more than none.  Raises UsageError."""
    # In the snapshot's heap re and what it imports would take a megabyte, copied by every command.
    import re

    part = re.compile(_PART)
    total, at = 0.0, 1 if text.startswith("+") else 0
    while match := part.match(text, at):
        total += float(match[1]) * _SECONDS[match[2]]
        at = match.end()
    if text in ("0", "+0", "-0") or text.startswith("-"):
        raise UsageError(f"--{flag} {text}: duration interval must be greater than 0")
    if at < len(text) or at < 2:
        raise UsageError(
            f'invalid value "{text}" for flag -{flag}', "a number and a unit: 5s, 1m30s, 100ms"
        )
    if total <= 0:
        raise UsageError(f"--{flag} {text}: duration interval must be greater than 0")
    return total
