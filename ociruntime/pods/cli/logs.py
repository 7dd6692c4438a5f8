"""``ocipod logs``: print the output of a pod's apps."""

from __future__ import annotations

from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import write_all
from ociruntime.commandline.parser import Arguments
from ociruntime.pods.cli.context import Context
from ociruntime.pods.store.log_reader import Line, LogReader, check_app, form, in_order
from ociruntime.pods.store.phases import open_pod
from ociruntime.pods.store.pod import Pod
from ociruntime.pods.store.pod_status import app_names

POLL = 0.1  # seconds between two reads of the logs with --follow


def run_logs(context: Context, arguments: Arguments) -> int:
    """Print a pod's logs; with ``--follow``, also print new lines until the pod exits.

    Raises RuntimeFailure if the pod or app is not found, or if a log cannot be read.
    """
    tail = arguments.number("tail", -1)
    with open_pod(context.directory, arguments.positional[0]) as pod:
        names = check_app(app_names(pod), arguments.text("app"))
        printer = Printer(arguments)
        printer.with_app = len(names) > 1
        readers = {name: LogReader(_log_directory(pod), name) for name in names}
        lines = _read(readers)
        if not arguments.flag("follow"):
            lines += _unfinished(readers)
        lines = printer.selected(in_order(lines))
        if tail >= 0:
            lines = lines[len(lines) - min(tail, len(lines)) :]
        if printer.print(lines) and arguments.flag("follow"):
            _follow(pod, readers, printer, changing=not arguments.text("app"))
    return 0


def _follow(pod: Pod, readers: dict[str, LogReader], printer: Printer, *, changing: bool) -> None:
    """Print new log lines until the pod exits or the pipe on standard output is closed.

    ``readers`` maps names of apps to readers of their logs.  With ``changing``, also print the
    lines of apps that are added to the pod later.
    """
    import time

    while True:
        has_exited = pod.refresh() != "running"
        if changing:
            for name in app_names(pod):
                readers.setdefault(name, LogReader(_log_directory(pod), name))
            printer.with_app = len(readers) > 1
        lines = _read(readers)
        if has_exited:
            lines += _unfinished(readers)
        if not printer.print(printer.selected(in_order(lines))) or has_exited:
            return
        time.sleep(POLL)


def _log_directory(pod: Pod) -> str:
    return f"/proc/self/fd/{pod.fd}/logs"


def _read(readers: dict[str, LogReader]) -> list[Line]:
    batches = (lines for reader in readers.values() for lines in reader.read())
    return [line for lines in batches for line in lines]


def _unfinished(readers: dict[str, LogReader]) -> list[Line]:
    return [line for reader in readers.values() for line in reader.assembler.rest()]


class Printer:
    """A printer of log lines, in the form that the options of ``ocipod logs`` request.

    Lines that an app wrote to its standard error are printed on standard error.
    """

    def __init__(self, arguments: Arguments) -> None:
        self._stream = arguments.text("stream")
        self._with_time = arguments.flag("timestamps")
        self.with_app = False

    def selected(self, lines: list[Line]) -> list[Line]:
        """Return the lines of the stream in ``--stream``; without this option, return all lines."""
        return [line for line in lines if self._stream in ("", line.stream)]

    def print(self, lines: list[Line]) -> bool:
        """Print log lines; return False if the pipe on standard output has been closed."""
        for line in lines:
            fd = 2 if line.stream == "stderr" else 1
            if not write_all(fd, form(line, self.with_app, self._with_time)):
                return False
        return True


COMMANDS = (
    Command(
        "logs UUID",
        "print the logs of a pod's apps",
        run_logs,
        options=(
            Option("app", "show only this app", "APP", short="a"),
            Option("follow", "follow the log output", short="f"),
            Option("tail", "show only the last N lines", "N", kind="count", short="n"),
            Option("timestamps", "show timestamps", short="t"),
            Option("stream", "show only this stream", "stdout|stderr", kind="choice"),
        ),
        details=("Lines of several apps are sorted by time and prefixed with the app's name."),
        examples=(
            ("Print all logs", "ocipod logs 6d52"),
            ("Follow one app from now on", "ocipod logs --app=web --follow --tail=0 6d52"),
        ),
    ),
)
