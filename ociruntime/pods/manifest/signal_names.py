"""Normalise names of signals to the form of the image format."""

from __future__ import annotations

from ociruntime.base.errors import UsageError
from ociruntime.base.linux import SIGNALS, SIGRTMAX, SIGRTMIN

_REAL_TIME = "SIGRTMIN+"


def signal_name(text: str) -> str:
    """Normalise ``9``, ``kill``, ``SIGRTMIN+3`` to ``SIGKILL``, ``SIGRTMIN+3``; or UsageError."""
    name = text.upper()
    if name.isascii() and name.isdigit():
        return _of_number(int(name), text)
    if not name.startswith("SIG"):
        name = f"SIG{name}"
    steps = name.removeprefix(_REAL_TIME)
    known = name in SIGNALS or name == "SIGRTMIN"
    if steps != name and steps.isascii() and steps.isdigit() and len(steps) <= 2:
        known = SIGRTMIN + int(steps) <= SIGRTMAX
    if not known:
        raise _unknown(text)
    return name


def _of_number(number: int, text: str) -> str:
    for name, value in SIGNALS.items():
        if value == number:
            return name
    if SIGRTMIN <= number <= SIGRTMAX:
        return f"{_REAL_TIME}{number - SIGRTMIN}"
    raise _unknown(text)


def _unknown(text: str) -> UsageError:
    return UsageError(f'unknown signal "{text}"', "a number up to 64 or a name such as SIGTERM")
