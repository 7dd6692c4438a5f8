"""Show the progress of a long operation on standard error: a bar on a terminal, or lines of JSON.

    with Bar() as bar:
        fetch(store, text, policy, progress=bar)

``fetch`` then calls ``bar(kind, done, total)`` after each piece of data.
"""

from __future__ import annotations

import os
import time

from ociruntime.base.log import plain

_STDERR = 2
_WIDTH = 24  # of the bar
_OFTEN = 0.1  # seconds between two lines
_UNITS = ("B", "kB", "MB", "GB", "TB")


class Bar:
    """A progress bar on standard error, for use as a Progress (images/model/image.py).

    It is one line, redrawn in place; leaving the ``with`` block erases it.  If standard error is
    not a terminal, it shows nothing.
    """

    __slots__ = ("_drawn", "_kind", "_shown", "_terminal")

    def __init__(self) -> None:
        self._terminal = os.isatty(_STDERR)
        self._drawn = 0.0
        self._kind = ""
        self._shown = False

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *error: object) -> None:
        self.clear()

    def __call__(self, kind: str, done: int, total: int) -> None:
        """Show that the activity ``kind`` has processed ``done`` of ``total`` bytes.

        ``total`` is 0 if it is not known.
        """
        if not self._terminal:
            return
        now = time.monotonic()
        if (
            now - self._drawn < _OFTEN and done != total
        ):  # also limits the rate if several downloads alternate
            return
        self._kind, self._drawn, self._shown = kind, now, True
        columns = _columns()
        self._put(f"\r{plain(line(kind, done, total))[: columns - 1]}\x1b[K")

    def clear(self) -> None:
        """Erase the bar from the terminal, before a message is printed and at the end."""
        if self._shown:
            self._shown = False
            self._put("\r\x1b[K")

    def _put(self, text: str) -> None:
        try:
            os.write(_STDERR, text.encode("utf-8", "replace"))
        except OSError:  # the terminal is gone; continue without a bar
            self._terminal = False


class Lines:
    """Progress reports for other programs: lines of JSON, ``{"progress", "done", "total"}``.

    Use it like a Bar, but it writes to standard error even if that is not a terminal.
    """

    __slots__ = ("_gone", "_printed")

    def __init__(self) -> None:
        self._printed: dict[
            str, float
        ] = {}  # kind -> time of its last line; several activities may alternate
        self._gone = False

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def __call__(self, kind: str, done: int, total: int) -> None:
        """Report that the activity ``kind`` has processed ``done`` of ``total`` bytes."""
        now = time.monotonic()
        if self._gone or (done != total and now - self._printed.get(kind, -1.0) < _OFTEN):
            return
        import json

        self._printed[kind] = now
        text = json.dumps({"progress": kind, "done": done, "total": total})
        try:
            os.write(_STDERR, text.encode() + b"\n")
        except OSError:  # the reader closed the pipe; continue without it
            self._gone = True


def line(kind: str, done: int, total: int) -> str:
    """Format a progress bar: ``copying layer 1 [####....]  50%  1.5 MB of 3.0 MB``."""
    if total <= 0:
        return f"{kind}  {amount(done)}"
    share = min(max(done / total, 0.0), 1.0)
    full = int(share * _WIDTH)
    bar = "#" * full + "." * (_WIDTH - full)
    return f"{kind} [{bar}] {share:4.0%}  {amount(done)} of {amount(total)}"


def amount(size: float) -> str:
    """Format a number of bytes for people: ``512 B``, ``1.5 MB``; 1 kB is 1000 bytes."""
    for unit in _UNITS:
        if size < 999.95 or unit == _UNITS[-1]:
            break
        size /= 1000
    return f"{int(size)} B" if unit == "B" else f"{size:.1f} {unit}"


def _columns() -> int:
    try:
        return os.get_terminal_size(_STDERR).columns or 80
    except OSError:
        return 80
