"""The signal by which an app is asked to end."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal


_REAL_TIME = ("SIGRTMIN+", "RTMIN+")


def stop_signal(name: str) -> int:
    """The number of an image's ``StopSignal``; SIGTERM for what it cannot mean.

    Whatever is written there: it is a signal that can be sent.
    """
    number = _number(name)
    return number if number in _signal.valid_signals() else int(_signal.SIGTERM)


def _number(name: str) -> int:
    """Perhaps of no signal; -1 for what is none."""
    if _is_decimal(name):
        return int(name)
    for prefix in _REAL_TIME:
        if name.startswith(prefix):
            steps = name.removeprefix(prefix)
            return int(_signal.SIGRTMIN) + int(steps) if _is_decimal(steps) else -1
    full = name if name.startswith("SIG") else f"SIG{name}"
    # SIG_BLOCK and the like are other constants.
    return -1 if full.startswith("SIG_") else int(getattr(_signal, full, -1))


def _is_decimal(text: str) -> bool:
    # Other scripts have digits as well, and int() refuses what is very long.
    return text.isascii() and text.isdigit() and len(text) <= 3
