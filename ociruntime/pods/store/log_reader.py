"""Read the log files of apps (Kubernetes CRI format): join partial lines, follow rotation."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from ociruntime.base.errors import HostError, PodError

FILES = 3  # log files of an app: NAME, and the older NAME.1 and NAME.2
CHUNK = 1 << 20
LONGEST_LINE = 1 << 20  # bytes; a longer line is returned in several parts
# Bytes of an entry; the writer's limit is lower (LONGEST in pods/monitor/log_writer.py).
LONGEST_ENTRY = 1 << 16


class Line:
    """A line of an app's output, written at ``time`` (RFC 3339).

    ``stream`` is "stdout" or "stderr".  ``ended`` is False if the line is not complete yet, or if
    the line is longer than LONGEST_LINE and ``text`` is only a part of it.
    """

    __slots__ = ("app", "ended", "stream", "text", "time")

    def __init__(self, app: str, time: str, stream: str, text: bytes, ended: bool) -> None:
        self.app = app
        self.time = time
        self.stream = stream
        self.text = text
        self.ended = ended


class Assembler:
    """The lines of output in an app's log, joined from the log's entries.

    A line can have several entries.
    """

    __slots__ = ("_app", "_open")

    def __init__(self, app: str) -> None:
        self._app = app
        self._open: dict[str, tuple[Line, bytearray]] = {}

    def add(self, entries: Iterable[bytes]) -> Iterator[Line]:
        """Yield the lines of output that are complete once the log ``entries`` are added.

        An entry is a line of the log file.  Invalid entries are skipped.  A line that reaches
        LONGEST_LINE is yielded in parts.
        """
        for entry in entries:
            parts = entry.split(b" ", 3)
            if len(parts) != 4 or parts[2] not in (b"F", b"P"):
                continue
            # A power failure may leave any bytes in a log.
            time, stream = (part.decode(errors="replace") for part in parts[:2])
            tag = parts[2]
            new = Line(self._app, time, stream, b"", False), bytearray()
            line, text = self._open.pop(stream, new)
            text += parts[3]
            line.ended = tag == b"F"
            if line.ended or len(text) >= LONGEST_LINE:
                line.text = bytes(text)
                yield line
            else:
                self._open[stream] = line, text

    def rest(self) -> list[Line]:
        """Return the incomplete lines of output, and forget them."""
        lines = []
        for line, text in self._open.values():
            line.text = bytes(text)
            lines.append(line)
        self._open.clear()
        return lines


class LogReader:
    """A reader of an app's log files, from the oldest to the newest; ``read`` yields new lines."""

    __slots__ = ("_directory", "_fd", "_half", "_name", "assembler")

    def __init__(self, directory: str, app: str) -> None:
        """Prepare to read the log of ``app`` in ``directory``, a pod's directory of logs."""
        self._directory = directory
        self._name = f"{app}.log"
        self.assembler = Assembler(app)
        self._fd = -1
        self._half = b""

    def read(self) -> Iterator[list[Line]]:
        """Yield lists of the lines that have been completed since the last call.

        Each file is read up to its current size, because an app may write faster than this process
        reads.  Raises HostError if a log file cannot be read.
        """
        try:
            if self._fd < 0:
                for number in range(FILES - 1, 0, -1):
                    yield from self._read_file(f"{self._name}.{number}")
                self._open()
            if self._fd < 0:
                return
            yield from self._read_on()
            if not self._is_current():
                # The log was rotated: first read what was still written to the old file.
                yield from self._read_on()
                os.close(self._fd)
                self._open()
                yield from self._read_on()
        except OSError as error:
            raise HostError(f'read the log "{self._directory}/{self._name}"', error) from None

    def _read_file(self, name: str) -> Iterator[list[Line]]:
        try:
            self._fd = self._open_file(name)
        except FileNotFoundError:
            return
        yield from self._read_on()
        os.close(self._fd)
        self._fd = -1

    def _open_file(self, name: str) -> int:
        self._half = b""  # half an entry at the end of another file: its writer was killed
        return os.open(f"{self._directory}/{name}", os.O_RDONLY | os.O_CLOEXEC)

    def _open(self) -> None:
        try:
            self._fd = self._open_file(self._name)
        except FileNotFoundError:
            self._fd = -1

    def _is_current(self) -> bool:
        try:
            current = os.stat(f"{self._directory}/{self._name}")
        except FileNotFoundError:
            return True  # the log is being rotated, or was removed with the pod
        ours = os.fstat(self._fd)
        return (current.st_dev, current.st_ino) == (ours.st_dev, ours.st_ino)

    def _read_on(self) -> Iterator[list[Line]]:
        """Read the open log file up to its current size, and yield lists of lines."""
        if self._fd < 0:
            return
        unread = os.fstat(self._fd).st_size - os.lseek(self._fd, 0, os.SEEK_CUR)
        while unread > 0 and (data := os.read(self._fd, min(CHUNK, unread))):
            unread -= len(data)
            entries = (self._half + data).split(b"\n")
            self._half = entries.pop()
            if len(self._half) > LONGEST_ENTRY:
                self._half = b""
            yield list(self.assembler.add(entries))

    def close(self) -> None:
        """Close the log file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def in_order(lines: Iterable[Line]) -> list[Line]:
    """Return ``lines`` sorted by time; lines with the same time keep their order."""
    return sorted(lines, key=lambda line: line.time)


def form(line: Line, with_app: bool, with_time: bool) -> bytes:
    """Return ``line`` as it is printed, with the time and the app's name if requested.

    The result ends with a line feed unless the line is incomplete.
    """
    prefix = f"{line.time} " if with_time else ""
    if with_app:
        prefix += f"{line.app}: "
    return prefix.encode() + line.text + (b"\n" if line.ended else b"")


def check_app(names: list[str], app: str) -> list[str]:
    """Return the apps whose logs are to be read: [``app``], or ``names`` if ``app`` is "".

    ``names`` are the names of all apps of a pod.  Raises PodError if ``app`` is not among them.
    """
    if not app:
        return names
    if app not in names:
        hint = f"its apps: {', '.join(names)}" if names else "it has no apps"
        raise PodError(f'read the logs of app "{app}": the pod has no such app', hint)
    return [app]
