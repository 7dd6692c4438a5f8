"""Record when the phases and operations of a command began (``--timeline``, ``--debug``).

The runtime marks its phases.  The executor writes the start times of its operations to a memfd, so
it need not send messages.  Both use CLOCK_REALTIME, the only clock that time namespaces do not
shift.  The start of the interpreter cannot be observed; the caller derives it from the CPU time
used.

Pure functions convert the timeline to spans, and spans to a trace (JSON) or a picture (SVG).
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence
from time import time_ns
from typing import NamedTuple, TypeVar

from ociruntime.base.errors import HostError
from ociruntime.base.files import write_all
from ociruntime.runtime.plan.explain import arguments, operation_lines
from ociruntime.runtime.plan.plan import Operation, Plan, operation_name

T = TypeVar("T")
RUNTIME = "runtime"
EXECUTOR = "executor"
WAITS = ("sync", "wait_start", "wait for the executor")

# Operation -> its subject, which determines the colour; the default subject is the process.
KINDS: dict[str, str] = {
    **dict.fromkeys(
        (
            "open_namespace join_namespace unshare become_root clone_init join_process"
            " clone_process id_map hostname domainname loopback keyring"
        ).split(),
        "namespaces",
    ),
    **dict.fromkeys(
        (
            "propagation open_tree root shared_root mount bind set_attributes reconfigure"
            " pivot_root move_root chroot"
        ).split(),
        "mounts",
    ),
    **dict.fromkeys("mkdir device symlink console mask readonly write_proc".split(), "files"),
}
MFD_CLOEXEC = 1


class Timeline:
    """The start times of one command's phases and operations; ``save`` writes them to a file.

    ``path`` is the file given with ``--timeline``, or "" if the times are only for ``--debug``.
    """

    def __init__(self, path: str, command: str, phases: list[tuple[str, int]]) -> None:
        """Start recording, and open the file, so that errors appear before anything is created.

        ``phases``: the phases that have begun already, as (name, start time in nanoseconds).
        Raises HostError.
        """
        self.command = command
        self.phases = phases
        self.operations: list[Operation] = []
        self._times_fd = -1
        self._shown = 0  # operations that `carried_out` has returned
        self._path = path
        self._file = -1
        if not path:
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOCTTY
        try:
            self._file = os.open(path, flags, 0o644)
        except OSError as error:
            raise HostError(f'open the timeline file "{path}"', error) from None

    def mark(self, phase: str) -> None:
        """End the current phase, and begin the phase named ``phase``."""
        self.phases.append((phase, time_ns()))

    def follow(self, plan: Plan) -> int:
        """Return a memfd to which the executor will write the start times of ``plan``'s operations.

        Raises HostError.
        """
        self.mark("start the executor")
        self.operations = plan.operations
        self._shown = 0
        try:
            self._times_fd = os.memfd_create("times", MFD_CLOEXEC)
            # Write zeros instead of ftruncate(2): the memory is then charged to this process, not
            # to the container.
            os.write(self._times_fd, bytes(8 * (len(self.operations) + 1)))
        except OSError as error:
            raise HostError("create a memfd for the timeline", error) from None
        return self._times_fd

    def times(self) -> list[int]:
        """Return the start times of the executor and of each operation.

        The times are in nanoseconds since the epoch; an operation that has not started yet has the
        time 0.  Without an executor, the list is empty.
        """
        if self._times_fd < 0:
            return []
        return array("Q", os.pread(self._times_fd, 8 * (len(self.operations) + 1), 0)).tolist()

    def carried_out(self) -> list[str]:
        """Return a log line for each operation begun since the previous call, with its duration."""
        now = time_ns()
        times = self.times()
        lines = operation_lines(self.operations)
        begun = [(index, start) for index, start in enumerate(times) if index and start]
        ends = [start for _, start in begun[1:]] + [now]
        finished = [
            f"operation {' '.join(lines[index - 1].split())} ({(end - start) / 1e6:.2f} ms)"
            for (index, start), end in zip(begun, ends, strict=True)
        ]
        unreported = finished[self._shown :]
        self._shown = len(finished)
        return unreported

    def save(self) -> None:
        """Write all times so far to the timeline file, as SVG or as JSON for Perfetto.

        The file is SVG if its name ends with .svg.  Raises HostError.
        """
        if not self._path:
            return
        now = time_ns()  # do not count the imports below

        recorded = spans(self.phases, now, self.operations, self.times())
        if self._path.endswith(".svg"):
            text = svg(self.command, recorded)
        else:
            text = trace_events(self.command, recorded)
        try:
            os.ftruncate(self._file, 0)
            os.lseek(self._file, 0, 0)  # SEEK_SET
            write_all(self._file, text.encode("utf-8", "backslashreplace"))
        except OSError as error:
            raise HostError(f'write the timeline file "{self._path}"', error) from None


class Span(NamedTuple):
    """One bar of a timeline: a phase of the runtime or an operation of the executor.

    ``lane``: RUNTIME or EXECUTOR.  ``kind``: determines the colour.  ``start`` and ``end``:
    nanoseconds since the beginning of the timeline.  ``number``: position of the operation in the
    plan, from 1; it is 0 for a phase and for the start of the executor.  ``where``: JSON path of
    the operation's setting, or "".
    """

    lane: str
    kind: str
    name: str
    start: int
    end: int
    number: int = 0
    arguments: str = ""
    where: str = ""


def spans(
    phases: Sequence[tuple[str, int]],
    now: int,
    operations: Sequence[Operation],
    times: Sequence[int],
) -> list[Span]:
    """Return a span for each phase of the runtime, then for each operation of the executor.

    A span ends where the next span begins; the last span ends at ``now``.  ``times`` is the result
    of ``Timeline.times``.  Operations that have not begun are left out.  No span ends before it
    begins, even if the clock was set back.
    """
    first = phases[0][1]
    found = [
        Span(RUNTIME, "wait" if name in WAITS else "runtime", name, start, end)
        for (name, start), end in _ends(phases, now)
    ]
    noted = [(index, each) for index, each in enumerate(times) if each]
    for (index, start), end in _ends(noted, now):
        if index == 0:
            found.append(Span(EXECUTOR, "process", "start the executor", start, end))
            continue
        operation = operations[index - 1]
        name = operation_name(operation)
        kind = "wait" if name in WAITS else KINDS.get(name, "process")
        words = " ".join(arguments(operation).split())
        found.append(Span(EXECUTOR, kind, name, start, end, index, words, operation.where))
    return [each._replace(start=each.start - first, end=each.end - first) for each in found]


def _ends(begun: Sequence[tuple[T, int]], now: int) -> list[tuple[tuple[T, int], int]]:
    """Return ((name, start), end) for each (name, start) of ``begun``.

    An entry ends where the next entry begins; the last entry ends at ``now``.  If the clock was set
    back, a start is moved to the previous start.
    """
    ordered: list[tuple[T, int]] = []
    for name, start in begun:
        ordered.append((name, max(start, ordered[-1][1]) if ordered else start))
    if not ordered:
        return []
    last = max(now, ordered[-1][1])
    return list(zip(ordered, [start for _, start in ordered[1:]] + [last], strict=True))


LANES = {RUNTIME: 1, EXECUTOR: 2}


def trace_events(command: str, spans: Sequence[Span]) -> str:
    """Return a trace for Perfetto as JSON text, with an event for each span.

    The runtime and the executor are shown as two threads of a process.
    """
    events: list[dict[str, object]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": command}}
    ]
    for lane, number in LANES.items():
        names = {"name": lane}
        events.append({"ph": "M", "name": "thread_name", "pid": 1, "tid": number, "args": names})
    for span in spans:
        details = {"number": span.number, "arguments": span.arguments, "where": span.where}
        events.append(
            {
                "ph": "X",
                "name": span.name,
                "cat": span.kind,
                "pid": 1,
                "tid": LANES[span.lane],
                "ts": span.start / 1000,
                "dur": (span.end - span.start) / 1000,
                "args": {key: value for key, value in details.items() if value},
            }
        )
    import json

    return json.dumps({"displayTimeUnit": "ms", "traceEvents": events}, indent=1) + "\n"


WIDTH, MARGIN = 1240, 28
LEFT, RIGHT = 470, 1140  # x coordinates of the scales' ends; durations follow on the right
ROW, BAR = 19, 11
# A timeline as an SVG picture without scripts, for any browser.
#
# The top shows an overview on one scale, with a lane for the runtime and a lane for the executor.
# Below follows a line for each phase and operation; the operations have a separate scale.

LANE = 30
LETTER = 6.3  # approximate width of a letter at 11 px
LABEL = 66  # maximum length of a line's label, in letters

COLOURS: dict[str, tuple[str, str]] = {
    "runtime": ("#3b6fb6", "runtime"),
    "namespaces": ("#8a5fb0", "namespaces"),
    "mounts": ("#1f8a70", "mounts and root"),
    "files": ("#c98a1b", "files and paths"),
    "process": ("#c4554d", "process and program"),
    "wait": ("#d3d8de", "waiting for the other"),
}
STYLE = """
text { font-family: "Inter", "Segoe UI", "DejaVu Sans", sans-serif; font-size: 11px; fill: #24292f }
.title { font-size: 19px; font-weight: 600 } .head { font-size: 13px; font-weight: 600 }
.soft { fill: #6e7781 } .number { text-anchor: end } .in { fill: #fff }
.grid { stroke: #e4e8ec } .axis { text-anchor: middle; fill: #6e7781; font-size: 10px }
"""


def svg(command: str, spans: Sequence[Span]) -> str:
    """Return the timeline of ``command`` as an SVG document; ``spans`` must not be empty."""
    whole = (0, max(each.end for each in spans))
    lanes = [[each for each in spans if each.lane == lane] for lane in (RUNTIME, EXECUTOR)]
    drawing = Drawing()
    drawing.text(MARGIN, 40, command, "title")
    drawing.text(
        MARGIN,
        60,
        f"{duration(whole[1])} in all; {sum(each.number > 0 for each in spans)} operations of the"
        f" plan in {duration(extent(lanes[1])[1] - extent(lanes[1])[0])}",
        "soft",
    )
    drawing.legend()
    drawing.overview(lanes, whole)
    drawing.section("runtime", "outside the container, on the scale of the whole", lanes[0], whole)
    if lanes[1]:
        words = "inside the container, on a scale of its own"
        drawing.section("executor", words, lanes[1], extent(lanes[1]))
    return drawing.document()


def extent(spans: Sequence[Span]) -> tuple[int, int]:
    """Return (first start, last end) of the spans in nanoseconds, or (0, 0) if there are none."""
    return (spans[0].start, max(each.end for each in spans)) if spans else (0, 0)


def duration(nanoseconds: int) -> str:
    """Format a duration in nanoseconds: ``0.6 µs``, ``12 µs``, ``3.40 ms``, ``1.25 s``."""
    if nanoseconds < 10_000:
        return f"{nanoseconds / 1000:.1f} µs"
    if nanoseconds < 1_000_000:
        return f"{nanoseconds / 1000:.0f} µs"
    if nanoseconds < 1_000_000_000:
        return f"{nanoseconds / 1_000_000:.2f} ms"
    return f"{nanoseconds / 1_000_000_000:.2f} s"


def ticks(length: int, most: int = 10) -> list[int]:
    """Return the positions of the grid lines on a time axis, in nanoseconds.

    ``length`` is the length of the axis in nanoseconds.  The distance between two lines is 1, 2 or
    5 times a power of ten, so that the axis has at most ``most`` intervals.
    """
    step = 1000
    while length / step > most:
        step = step * 5 // 2 if str(step)[0] == "2" else step * 2
    return list(range(0, length + 1, step))


class Drawing:
    """An SVG picture under construction; ``y`` is where the next element goes."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.y = 84

    def text(self, x: float, y: float, words: str, style: str = "") -> None:
        kind = f' class="{style}"' if style else ""
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}"{kind}>{plain(words)}</text>')

    def bar(self, x: float, y: float, width: float, height: int, span: Span) -> None:
        title = f"{span.name} {span.arguments}".strip() + f": {duration(span.end - span.start)}"
        if span.where:
            title += f" ({span.where})"
        self.parts.append(
            f'<rect x="{x:.2f}" y="{y}" width="{max(width, 1):.2f}" height="{height}" rx="1.5"'
            f' fill="{COLOURS[span.kind][0]}"><title>{plain(title)}</title></rect>'
        )

    def line(self, x: float, top: float, bottom: float) -> None:
        self.parts.append(
            f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top:.1f}" y2="{bottom:.1f}"/>'
        )

    def legend(self) -> None:
        x = WIDTH - MARGIN - sum(24 + LETTER * len(meaning) for _, meaning in COLOURS.values())
        for colour, meaning in COLOURS.values():
            self.parts.append(
                f'<rect x="{x:.1f}" y="31" width="10" height="10" rx="2" fill="{colour}"/>'
            )
            self.text(x + 14, 40, meaning, "soft")
            x += 24 + LETTER * len(meaning)

    def scale(self, span: tuple[int, int], left: int, right: int, height: int) -> None:
        """Add a time axis, and its grid lines over the next ``height`` pixels.

        ``span`` is (first time, last time) in nanoseconds; ``left`` and ``right`` are the x
        coordinates of these times.
        """
        length = max(span[1] - span[0], 1)
        for tick in ticks(length):
            x = left + (right - left) * tick / length
            self.line(x, self.y + 16, self.y + 20 + height)
            self.text(x, self.y + 11, duration(tick) if tick else "0", "axis")
        self.y += 20

    def overview(self, lanes: Sequence[Sequence[Span]], whole: tuple[int, int]) -> None:
        left, right = MARGIN + 62, WIDTH - MARGIN
        each_pixel = (right - left) / max(whole[1], 1)
        self.scale(whole, left, right, len(lanes) * LANE)
        for name, lane in zip((RUNTIME, EXECUTOR), lanes, strict=True):
            self.text(MARGIN, self.y + 17, name, "head")
            for span in lane:
                x, width = left + span.start * each_pixel, (span.end - span.start) * each_pixel
                self.bar(x, self.y + 3, width - 0.5, LANE - 8, span)
                if width > LETTER * len(span.name) + 10:
                    style = "" if span.kind == "wait" else "in"
                    self.text(x + 5, self.y + 18, span.name, style)
            self.y += LANE
        self.y += 26

    def section(
        self, name: str, remark: str, spans: Sequence[Span], scale: tuple[int, int]
    ) -> None:
        """Add the heading ``name`` with a ``remark``, a time axis, and a row for each span.

        ``scale`` is (first time, last time) of the axis in nanoseconds.
        """
        self.text(MARGIN, self.y + 11, name, "head")
        self.text(MARGIN + 70, self.y + 11, remark, "soft")
        self.scale(scale, LEFT, RIGHT, len(spans) * ROW)
        each_pixel = (RIGHT - LEFT) / max(scale[1] - scale[0], 1)
        for span in spans:
            base = self.y + 13
            if span.number:
                self.text(MARGIN + 20, base, str(span.number), "soft number")
            self.text(MARGIN + 28, base, label(span))
            x = LEFT + (span.start - scale[0]) * each_pixel
            width = (span.end - span.start) * each_pixel
            self.bar(x, self.y + 4, width, BAR, span)
            self.text(x + max(width, 1) + 5, base, duration(span.end - span.start), "soft")
            self.y += ROW
        self.y += 22

    def document(self) -> str:
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{self.y}"'
            f' viewBox="0 0 {WIDTH} {self.y}">'
        )
        ground = '<rect width="100%" height="100%" fill="#fff"/>'
        return "\n".join([head, f"<style>{STYLE}</style>", ground, *self.parts, "</svg>"]) + "\n"


def plain(text: str) -> str:
    """Escape text for XML, and replace the control characters, which XML does not allow."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    from html import escape  # here: other commands than those that draw do not need it

    return escape(text, quote=False)


def label(span: Span) -> str:
    """Return the label of a span's row: name and arguments, cut to LABEL characters."""
    text = f"{span.name.replace('_', ' ')}  {span.arguments}".rstrip()
    return text if len(text) <= LABEL else text[: LABEL - 1] + "\N{HORIZONTAL ELLIPSIS}"
