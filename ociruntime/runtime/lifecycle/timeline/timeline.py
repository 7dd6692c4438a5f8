"""Record when each phase of a command and each operation began (``--timeline``, ``--debug``).

The runtime marks its phases; the executor writes its times to a memfd, which needs no messages.
Both use CLOCK_REALTIME, the only clock that time namespaces do not shift.  The interpreter's own
start cannot be observed, so the CPU time used so far stands for it.
"""

from __future__ import annotations

import os
from array import array
from time import process_time_ns, time_ns

from ociruntime.base.errors import HostError
from ociruntime.base.files import write_all
from ociruntime.runtime.lifecycle.timeline.trace import spans, svg, trace_events
from ociruntime.runtime.plan.explain import operation_lines
from ociruntime.runtime.plan.plan import Operation, Plan

MFD_CLOEXEC = 1


class Timeline:
    """The times of one command, and the file of ``--timeline`` to which ``save`` writes them.

    ``path`` "" means no file: the times are only for ``--debug``.
    """

    def __init__(self, path: str, command: str) -> None:
        """Start recording, and open the file: errors must appear before anything is created.

        Raises HostError.
        """
        now = time_ns()
        self.command = command
        self.phases: list[tuple[str, int]] = [
            ("start the interpreter", now - process_time_ns()),
            ("load the command", now),
        ]
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
        """End the current phase, and begin one named ``phase``."""
        self.phases.append((phase, time_ns()))

    def follow(self, plan: Plan) -> int:
        """Return a descriptor of a memory file for the start times of the operations of ``plan``.

        Raises HostError.
        """
        self.mark("start the executor")
        self.operations = plan.operations
        self._shown = 0
        try:
            self._times_fd = os.memfd_create("times", MFD_CLOEXEC)
            # Write the file instead of only extending it: its memory is then charged to us, not to
            # the container.
            os.write(self._times_fd, bytes(8 * (len(self.operations) + 1)))
        except OSError as error:
            raise HostError("create a memfd for the timeline", error) from None
        return self._times_fd

    def times(self) -> list[int]:
        """Return when the executor and each operation began (ns since the epoch; 0: not yet)."""
        if self._times_fd < 0:
            return []
        return array("Q", os.pread(self._times_fd, 8 * (len(self.operations) + 1), 0)).tolist()

    def carried_out(self) -> list[str]:
        """Return log lines with the durations of the operations begun since the last call."""
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
        """Write all times so far to the file: SVG if its name ends in .svg, else Perfetto JSON.

        Raises HostError.
        """
        if not self._path:
            return
        now = time_ns()  # before the time of the imports below

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
