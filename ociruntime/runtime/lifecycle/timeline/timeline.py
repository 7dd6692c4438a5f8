"""``--timeline``: record when each phase of a command and each operation of its plan began.

The runtime marks its phases; the executor writes its times to a memory file that both have mapped,
which costs no messages. Both use CLOCK_REALTIME, the one clock that no time namespace shifts. The
time of the interpreter's start is not known; its CPU time so far is.
"""

from __future__ import annotations

import os
from array import array
from time import process_time_ns, time_ns

from ociruntime.base.errors import HostError
from ociruntime.runtime.lifecycle.timeline.trace import spans, svg, trace_events
from ociruntime.runtime.plan.plan import Operation, Plan

MFD_CLOEXEC = 1


class Timeline:
    """Collects until ``save`` writes the file; that may happen several times, with more each."""

    def __init__(self, path: str, command: str) -> None:
        """Opens the file at once, before anything is made.  Raises HostError."""
        now = time_ns()
        self.command = command
        self.phases: list[tuple[str, int]] = [
            ("start the interpreter", now - process_time_ns()),
            ("load the command", now),
        ]
        self.operations: list[Operation] = []
        self._times_fd = -1
        self._path = path
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOCTTY
        try:
            self._file = os.open(path, flags, 0o644)
        except OSError as error:
            raise HostError(f"open the timeline {path}", error) from None

    def mark(self, phase: str) -> None:
        """The phase before ends, this one begins."""
        self.phases.append((phase, time_ns()))

    def follow(self, plan: Plan) -> int:
        """A descriptor for the executor's times of this plan.  Raises HostError."""
        self.mark("start the executor")
        self.operations = plan.operations
        try:
            self._times_fd = os.memfd_create("times", MFD_CLOEXEC)
            # Write the file instead of only extending it: its memory is then charged to us, not to
            # the container.
            os.write(self._times_fd, bytes(8 * (len(self.operations) + 1)))
        except OSError as error:
            raise HostError("make a memory file for times", error) from None
        return self._times_fd

    def times(self) -> list[int]:
        """The executor's start, then the begin of each operation; 0 where it did not come so
        far."""
        if self._times_fd < 0:
            return []
        return array("Q", os.pread(self._times_fd, 8 * (len(self.operations) + 1), 0)).tolist()

    def save(self) -> None:
        """Write the file anew.  Raises HostError."""
        now = time_ns()  # before what is imported here takes its time

        found = spans(self.phases, now, self.operations, self.times())
        if self._path.endswith(".svg"):
            text = svg(self.command, found)
        else:
            text = trace_events(self.command, found)
        data = memoryview(text.encode("utf-8", "backslashreplace"))
        try:
            os.ftruncate(self._file, 0)
            os.lseek(self._file, 0, 0)  # SEEK_SET
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            raise HostError(f"write the timeline {self._path}", error) from None
