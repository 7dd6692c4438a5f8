"""The progress of an image pull: on a terminal, a line per layer that is redrawn in place.

    with Layers("busybox") as layers:
        layers("fetching layer 1 of 3", done, total)       # at each change; numbers of bytes
        layers.finish()                                    # replaces the lines with a summary

If standard error is not a terminal, plain lines are printed instead.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from ociruntime.base.log import plain
from ociruntime.commandline.progress import amount

_STDERR = 2
_OFTEN = 0.1  # seconds between two redraws
_WINDOW = 3.0  # seconds over which a rate is averaged
_BAR = 20  # characters
_LABEL = 22  # characters for "layer 12 of 41"
_MOST = 10_000  # layers to show; further layers of an image are ignored
# Verb of a running step -> its form for a complete step, such as fetching -> fetched.
_COMPLETE = {
    "fetching": "fetched",
    "unpacking": "unpacked",
    "copying": "copied",
    "reading": "read",
}


class Layer:
    """The progress of one layer: its current step and its download rate."""

    def __init__(self) -> None:
        self.verb = ""
        self.done = 0
        self.total = 0
        self._samples: list[tuple[float, int]] = []

    def note(self, verb: str, done: int, total: int, now: float) -> None:
        if verb != self.verb:
            self._samples = []
        self.verb, self.done, self.total = verb, done, total
        self._samples.append((now, done))
        while len(self._samples) > 2 and self._samples[1][0] < now - _WINDOW:
            self._samples.pop(0)

    @property
    def is_complete(self) -> bool:
        return 0 < self.total <= self.done

    @property
    def is_waiting(self) -> bool:
        return self.done == 0 and self.total > 0

    @property
    def rate(self) -> float:
        """The layer's rate in bytes per second, averaged over the last 3 s; 0 if not known yet."""
        (first, before), (last, after) = self._samples[0], self._samples[-1]
        return (after - before) / (last - first) if last > first else 0.0

    def line(self, label: str) -> str:
        """Return the layer's line on the terminal, which begins with ``label``.

        The line shows the current step, a bar, the number of bytes, the rate and the remaining
        time.
        """
        head = f"{label:<{_LABEL}} "
        if self.is_waiting:
            return f"{head}waiting    {amount(self.total)}"
        if self.is_complete:
            return f"{head}{_COMPLETE.get(self.verb, self.verb):<10} {amount(self.total)}"
        text = f"{head}{self.verb:<10} "
        if self.total <= 0:
            return f"{text}{amount(self.done)}"
        full = int(self.done / self.total * _BAR)
        bar = "#" * full + "." * (_BAR - full)
        text += f"[{bar}] {amount(self.done)} of {amount(self.total)}"
        if rate := self.rate:
            text += f"  {amount(rate)}/s  {duration((self.total - self.done) / rate)} left"
        return text


def duration(seconds: float) -> str:
    """Format a remaining time: ``8s``, ``2m05s``, ``3h10m``."""
    whole = int(min(seconds, 359_999)) + 1
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02}m"


class Layers:
    """The progress display of an image pull, for use as a Progress (images/model/image.py).

    On a terminal, each layer has a line that is redrawn in place; if the terminal has too few
    lines, only active layers are shown.  If standard error is not a terminal, a line is printed
    whenever a layer completes a step.  With ``quiet``, nothing is shown.
    """

    def __init__(
        self, name: str, *, quiet: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._name = name
        self._quiet = quiet
        self._clock = clock
        self._terminal = os.isatty(_STDERR) and not quiet
        self._layers: dict[str, Layer] = {}
        self._began = clock()
        self._fetched = 0  # bytes received from the network, or read from a file
        self._drawn = 0.0
        self._lines = 0  # number of lines on the terminal now

    def __enter__(self) -> Layers:
        return self

    def __exit__(self, *error: object) -> None:
        self.clear()

    def __call__(self, kind: str, done: int, total: int) -> None:
        """Show that the step ``kind`` has processed ``done`` of ``total`` bytes.

        ``kind`` is, for example, ``fetching layer 1 of 3``.
        """
        verb, _, label = kind.partition(" ")
        if label not in self._layers and len(self._layers) >= _MOST:
            return
        layer = self._layers.setdefault(label, Layer())
        was_complete = layer.is_complete and layer.verb == verb
        if verb != "unpacking":
            self._fetched += max(done - (layer.done if layer.verb == verb else 0), 0)
        now = self._clock()
        layer.note(verb, done, total, now)
        ends = layer.is_complete and not was_complete
        if self._terminal:
            if ends or now - self._drawn >= _OFTEN:
                self._draw(now)
        elif ends and not self._quiet:
            self._put(f"{plain(layer.line(label))}\n")

    def finish(self) -> None:
        """Replace the layers' lines with one line that summarises the pull."""
        self.clear()
        if self._quiet:
            return
        spent = self._clock() - self._began
        numbered = sum(label.startswith("layer ") for label in self._layers)
        layers = f"{numbered} layer{'' if numbered == 1 else 's'}, " if numbered else ""
        text = f"{self._name}: {layers}{amount(self._fetched)} in {spent:.1f}s"
        if not self._fetched:
            text = f"{self._name}: up to date"
        elif spent > 0:
            text += f" ({amount(self._fetched / spent)}/s)"
        self._put(f"{plain(text)}\n")

    def clear(self) -> None:
        """Erase the layers' lines from the terminal, before a message is printed and at the end."""
        if self._lines:
            self._put(f"\r\x1b[{self._lines}A\x1b[J")
            self._lines = 0

    def _draw(self, now: float) -> None:
        columns, rows = _size()
        lines = [plain(line)[: columns - 1] for line in self.picture(rows - 1)]
        up = f"\r\x1b[{self._lines}A" if self._lines else "\r"
        self._put(up + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J")
        self._drawn, self._lines = now, len(lines)

    def picture(self, most: int) -> list[str]:
        """Return the lines to display, at most ``most``.

        Each layer has a line.  If there are too many layers, only active layers have one, and the
        last line counts the complete and the waiting layers.
        """
        if len(self._layers) <= most:
            return [layer.line(label) for label, layer in self._layers.items()]
        active = [
            layer.line(label)
            for label, layer in self._layers.items()
            if not (layer.is_complete or layer.is_waiting)
        ]
        complete = sum(layer.is_complete for layer in self._layers.values())
        waiting = sum(layer.is_waiting for layer in self._layers.values())
        return [*active[: max(most - 1, 0)], f"{complete} complete, {waiting} waiting"]

    def _put(self, text: str) -> None:
        try:
            os.write(_STDERR, text.encode("utf-8", "replace"))
        except OSError:  # the terminal is gone; continue without a display
            self._terminal, self._quiet = False, True


def _size() -> tuple[int, int]:
    try:
        size = os.get_terminal_size(_STDERR)
    except OSError:
        return 80, 24
    return size.columns or 80, size.lines or 24
