"""Parse signals given on command lines: names with or without SIG, and numbers."""

from __future__ import annotations

from ociruntime.base.errors import UsageError
from ociruntime.base.linux import SIGNALS, SIGRTMAX, SIGRTMIN


def signal_number(text: str) -> int:
    """Return the number of the signal ``text``: ``9``, ``KILL``, ``sigkill`` or ``SIGRTMIN+3``.

    Accepts 0, with which kill(2) only checks that a process exists.  Raises UsageError for an
    unknown signal.
    """
    if text.isascii() and text.isdigit() and len(text) <= 3:
        number = int(text)
    else:
        number = _named(text.upper())
    if not 0 <= number <= SIGRTMAX:
        raise UsageError(f'unknown signal "{text}"', _hint(text))
    return number


def signal_name(text: str) -> str:
    """Return a signal's name as in an image's StopSignal: SIGKILL for ``9`` or ``kill``.

    Raises UsageError for an unknown signal and for 0, which cannot be a stop signal.
    """
    number = signal_number(text)
    if SIGRTMIN <= number <= SIGRTMAX:
        return f"SIGRTMIN+{number - SIGRTMIN}"
    names = [name for name, value in SIGNALS.items() if value == number]
    if not names:
        hint = f"use a name such as SIGTERM, or 1 to 31 or {SIGRTMIN} to {SIGRTMAX}"
        raise UsageError(f'invalid signal "{text}"', hint)
    return names[0]


def _named(name: str) -> int:
    """Return the number of the signal with this name, or -1 if the name is unknown."""
    if not name.startswith("SIG"):
        name = "SIG" + name
    if name in SIGNALS:
        return SIGNALS[name]
    for base, first, sign in (("SIGRTMIN", SIGRTMIN, "+"), ("SIGRTMAX", SIGRTMAX, "-")):
        if not name.startswith(base):
            continue
        offset = name[len(base) :]
        if not offset:
            return first
        if offset[0] == sign and offset[1:].isascii() and offset[1:].isdigit():
            steps = int(offset[1:3]) if len(offset) <= 3 else SIGRTMAX
            number = first + steps if sign == "+" else first - steps
            return number if SIGRTMIN <= number <= SIGRTMAX else -1
    return -1


def _hint(text: str) -> str:
    from ociruntime.base.similar_names import closest

    # Compare without the common prefix SIG, which would make all names look similar.
    name = text.upper().removeprefix("SIG")
    close = (
        closest(name, [known_name.removeprefix("SIG") for known_name in SIGNALS]) if name else ""
    )
    return f"did you mean SIG{close}?" if close else "use a name such as SIGTERM, or 0 to 64"
