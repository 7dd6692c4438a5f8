"""Parse the signal that stops an app."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal


_REAL_TIME = ("SIGRTMIN+", "RTMIN+")


def stop_signal(name: str) -> int:
    """Return the number of an image's ``StopSignal``; SIGTERM if it is invalid.

    The image is not trusted: the result is always a signal that can be sent.
    """
    number = _number(name)
    return number if number in _signal.valid_signals() else int(_signal.SIGTERM)


def _number(name: str) -> int:
    """Return a number, perhaps not of a valid signal; -1 for an unknown name."""
    if _is_decimal(name):
        return int(name)
    for prefix in _REAL_TIME:
        if name.startswith(prefix):
            steps = name.removeprefix(prefix)
            return int(_signal.SIGRTMIN) + int(steps) if _is_decimal(steps) else -1
    full = name if name.startswith("SIG") else f"SIG{name}"
    # Skip SIG_BLOCK and the like, which are not signals.
    return -1 if full.startswith("SIG_") else int(getattr(_signal, full, -1))


def _is_decimal(text: str) -> bool:
    # isdigit() accepts digits of other scripts, and int() refuses very long numbers.
    return text.isascii() and text.isdigit() and len(text) <= 3
