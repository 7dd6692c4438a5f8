"""The signal by which an app is asked to end."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal


def stop_signal(name: str) -> int:
    """The number of an image's ``StopSignal``; SIGTERM for what it cannot mean."""
    if name.isdigit():
        return int(name)
    known = getattr(_signal, name if name.startswith("SIG") else f"SIG{name}", None)
    if known is None and "RTMIN+" in name:
        return int(_signal.SIGRTMIN) + int(name.rpartition("+")[2])
    return int(known or _signal.SIGTERM)
