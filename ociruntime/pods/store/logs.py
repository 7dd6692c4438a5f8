"""Reading apps' log files: lines of Kubernetes' format, put together and in order of time."""

from __future__ import annotations

import posix

from ociruntime.base.errors import HostError, PodError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

OLDER = 9  # rotated files are looked for up to this number
CHUNK = 1 << 16


class Line:
    """What an app wrote as one line: ``time`` is that of its first piece, RFC 3339.

    ``ended`` is False for one without a line feed (yet).
    """

    __slots__ = ("app", "ended", "stream", "text", "time")

    def __init__(self, app: str, time: str, stream: str, text: bytes, ended: bool) -> None:
        self.app = app
        self.time = time
        self.stream = stream
        self.text = text
        self.ended = ended


class Assembler:
    """Makes lines of pieces; of each stream one may be unfinished."""

    __slots__ = ("_app", "_open")

    def __init__(self, app: str) -> None:
        self._app = app
        self._open: dict[str, Line] = {}

    def add(self, entries: Iterable[bytes]) -> Iterator[Line]:
        """``entries`` of the file -> lines that have ended.  What is no entry is left out."""
        for entry in entries:
            parts = entry.split(b" ", 3)
            if len(parts) != 4 or parts[2] not in (b"F", b"P"):
                continue
            time, stream, tag, text = parts[0].decode(), parts[1].decode(), parts[2], parts[3]
            line = self._open.pop(stream, None)
            if line is None:
                line = Line(self._app, time, stream, text, False)
            else:
                line.text += text
            if tag == b"F":
                line.ended = True
                yield line
            else:
                self._open[stream] = line

    def rest(self) -> list[Line]:
        """Lines without an end, which are forgotten here."""
        lines = list(self._open.values())
        self._open.clear()
        return lines


class LogReader:
    """Reads one app's log from its oldest file on; each ``read`` gives what has come since."""

    __slots__ = ("_directory", "_fd", "_half", "_name", "assembler")

    def __init__(self, directory: str, app: str) -> None:
        """``directory``: ``logs`` of the pod."""
        self._directory = directory
        self._name = f"{app}.log"
        self.assembler = Assembler(app)
        self._fd = -1
        self._half = b""

    def read(self) -> list[Line]:
        """Lines that have ended since.  Raises HostError."""
        lines: list[Line] = []
        try:
            if self._fd < 0:
                for number in range(OLDER, 0, -1):
                    lines += self._read_file(f"{self._name}.{number}")
                self._open()
            while self._fd >= 0:
                lines += self._read_on()
                if self._is_current():
                    break
                # It has been set aside; what was written to it in between is read before.
                lines += self._read_on()
                posix.close(self._fd)
                self._open()
        except OSError as error:
            raise HostError(f"read the log {self._directory}/{self._name}", error) from None
        return lines

    def _read_file(self, name: str) -> list[Line]:
        try:
            self._fd = self._open_file(name)
        except FileNotFoundError:
            return []
        lines = self._read_on()
        posix.close(self._fd)
        self._fd = -1
        return lines

    def _open_file(self, name: str) -> int:
        return posix.open(f"{self._directory}/{name}", posix.O_RDONLY | posix.O_CLOEXEC)

    def _open(self) -> None:
        self._half = b""
        try:
            self._fd = self._open_file(self._name)
        except FileNotFoundError:
            self._fd = -1

    def _is_current(self) -> bool:
        try:
            there = posix.stat(f"{self._directory}/{self._name}")
        except FileNotFoundError:
            return True  # about to be made again, or gone with the pod
        ours = posix.fstat(self._fd)
        return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)

    def _read_on(self) -> list[Line]:
        lines: list[Line] = []
        while data := posix.read(self._fd, CHUNK):
            entries = (self._half + data).split(b"\n")
            self._half = entries.pop()
            lines += self.assembler.add(entries)
        return lines

    def close(self) -> None:
        """Let go of the file."""
        if self._fd >= 0:
            posix.close(self._fd)
            self._fd = -1


def in_order(lines: Iterable[Line]) -> list[Line]:
    """By time; those of one time stay as they are."""
    return sorted(lines, key=lambda line: line.time)


def form(line: Line, with_app: bool, with_time: bool) -> bytes:
    """As it is printed, with a line feed if it has one."""
    front = f"{line.time} " if with_time else ""
    if with_app:
        front += f"{line.app}: "
    return front.encode() + line.text + (b"\n" if line.ended else b"")


def check_app(names: list[str], wanted: str) -> list[str]:
    """The apps to read: all, or the one that is wanted.  Raises PodError."""
    if not wanted:
        return names
    if wanted not in names:
        raise PodError(f'the pod has no app "{wanted}"', ", ".join(names) or "it has none")
    return [wanted]
