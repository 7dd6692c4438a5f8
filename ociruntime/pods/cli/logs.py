"""``ocipod logs``: what the apps of a pod have written."""

from __future__ import annotations

import posix

from ociruntime.base.errors import UsageError
from ociruntime.pods.store.app_states import app_names
from ociruntime.pods.store.logs import Line, LogReader, check_app, form, in_order
from ociruntime.pods.store.phases import open_pod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.pods.cli.context import Context
    from ociruntime.pods.store.pod import Pod

PAUSE = 0.1  # seconds between two looks of --follow


def run(context: Context, arguments: Arguments) -> int:
    """Prints; with ``--follow`` until the pod has ended.  Raises RuntimeFailure."""
    tail = arguments.number("tail", -1)
    if tail < 0 and "tail" in arguments.numbers:
        raise UsageError("--tail takes a number of lines, 0 or more")
    with open_pod(context.directory, arguments.positional[0]) as pod:
        names = check_app(app_names(pod), arguments.text("app"))
        printer = Printer(arguments)
        printer.with_app = len(names) > 1
        readers = {name: LogReader(_place(pod), name) for name in names}
        lines = _read(readers)
        if not arguments.flag("follow"):
            lines += _rest(readers)
        lines = printer.wanted(in_order(lines))
        if tail >= 0:
            lines = lines[len(lines) - min(tail, len(lines)) :]
        if printer.print(lines) and arguments.flag("follow"):
            _follow(pod, readers, printer, changing=not arguments.text("app"))
    return 0


def _follow(pod: Pod, readers: dict[str, LogReader], printer: Printer, *, changing: bool) -> None:
    """Until the pod has ended or nobody reads; with ``changing`` also apps that come later."""
    import time

    while True:
        over = pod.refresh() != "running"
        if changing:
            for name in app_names(pod):
                readers.setdefault(name, LogReader(_place(pod), name))
            printer.with_app = len(readers) > 1
        lines = _read(readers)
        if over:
            lines += _rest(readers)
        if not printer.print(printer.wanted(in_order(lines))) or over:
            return
        time.sleep(PAUSE)


def _place(pod: Pod) -> str:
    return f"/proc/self/fd/{pod.fd}/logs"


def _read(readers: dict[str, LogReader]) -> list[Line]:
    return [line for reader in readers.values() for line in reader.read()]


def _rest(readers: dict[str, LogReader]) -> list[Line]:
    return [line for reader in readers.values() for line in reader.assembler.rest()]


class Printer:
    """Writes lines as the options ask for; to stderr what was stderr."""

    def __init__(self, arguments: Arguments) -> None:
        self._stream = arguments.text("stream")
        self._with_time = arguments.flag("timestamps")
        self.with_app = False

    def wanted(self, lines: list[Line]) -> list[Line]:
        """Those of the stream that was asked for."""
        return [line for line in lines if self._stream in ("", line.stream)]

    def print(self, lines: list[Line]) -> bool:
        """Whether anybody reads."""
        for line in lines:
            fd = 2 if line.stream == "stderr" else 1
            data = memoryview(form(line, self.with_app, self._with_time))
            try:
                while data:
                    data = data[posix.write(fd, data) :]
            except BrokenPipeError:
                return False
        return True
