"""``ocipod logs``: what the apps of a pod have written."""

from __future__ import annotations

import posix

from ociruntime.errors import UsageError
from ociruntime.pod.app_states import app_names
from ociruntime.pod.logs import Line, LogReader, check_app, form, in_order
from ociruntime.pod.phases import open_pod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments
    from ociruntime.ocipod.context import Context

PAUSE = 0.1  # seconds between two looks of --follow


def run(context: Context, arguments: Arguments) -> int:
    """Prints; with ``--follow`` until the pod has ended.  Raises RuntimeFailure."""
    tail = arguments.number("tail", -1)
    if tail < 0 and "tail" in arguments.numbers:
        raise UsageError("--tail takes a number of lines, 0 or more")
    with open_pod(context.directory, arguments.positional[0]) as pod:
        names = check_app(app_names(pod), arguments.text("app"))
        printer = Printer(arguments, len(names) > 1)
        readers = [LogReader(f"/proc/self/fd/{pod.fd}/logs", name) for name in names]
        follow = arguments.flag("follow")
        lines = _read(readers)
        if not follow:
            lines += _rest(readers)
        lines = printer.wanted(in_order(lines))
        if tail >= 0:
            lines = lines[len(lines) - min(tail, len(lines)) :]
        if not printer.print(lines) or not follow:
            return 0
        import time

        while True:
            over = pod.refresh() != "running"
            lines = _read(readers)
            if over:
                lines += _rest(readers)
            if not printer.print(printer.wanted(in_order(lines))) or over:
                return 0
            time.sleep(PAUSE)


def _read(readers: list[LogReader]) -> list[Line]:
    return [line for reader in readers for line in reader.read()]


def _rest(readers: list[LogReader]) -> list[Line]:
    return [line for reader in readers for line in reader.assembler.rest()]


class Printer:
    """Writes lines as the options ask for; to stderr what was stderr."""

    def __init__(self, arguments: Arguments, with_app: bool) -> None:
        self._stream = arguments.text("stream")
        self._with_time = arguments.flag("timestamps")
        self._with_app = with_app

    def wanted(self, lines: list[Line]) -> list[Line]:
        """Those of the stream that was asked for."""
        return [line for line in lines if self._stream in ("", line.stream)]

    def print(self, lines: list[Line]) -> bool:
        """Whether anybody reads."""
        for line in lines:
            fd = 2 if line.stream == "stderr" else 1
            data = memoryview(form(line, self._with_app, self._with_time))
            try:
                while data:
                    data = data[posix.write(fd, data) :]
            except BrokenPipeError:
                return False
        return True
