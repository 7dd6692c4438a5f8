"""An app's log file, in the Kubernetes (CRI) log format.

An entry is a line ``TIME stdout|stderr F|P TEXT``.  P (partial) marks text that continues in the
next entry of its stream: it was written without a line feed, or is longer than ``LONGEST``.  A file
that reaches its limit is renamed to NAME.1.  The earlier NAME.1 becomes NAME.2, which is the oldest
file kept.
"""

from __future__ import annotations

import os

from ociruntime.base import json_files
from ociruntime.base.errors import HostError
from ociruntime.pods.store.log_reader import FILES

LONGEST = 16384  # maximum bytes of text in an entry
LIMIT = 10 << 20  # bytes of a file before it is rotated


class AppLog:
    """An app's open log file; ``lost`` counts the bytes of output that could not be written."""

    __slots__ = ("_fd", "_limit", "_path", "_size", "_torn", "lost")

    def __init__(self, path: str, limit: int = LIMIT, fd: int = -1) -> None:
        """Open the log file ``path``, or use its descriptor ``fd`` if that is not -1.

        The file is rotated before it exceeds ``limit`` bytes.  Raises HostError if it cannot be
        opened.
        """
        self._path = path
        self._limit = limit
        self.lost = 0
        self._torn = False  # whether the last write has written only a part of its entries
        self._fd, self._size = self._open() if fd < 0 else (fd, os.fstat(fd).st_size)

    def _open(self) -> tuple[int, int]:
        """Open or create the log file; return its descriptor and size.

        Raises HostError if it cannot be opened.
        """
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = -1
        try:
            fd = os.open(self._path, flags, 0o640)
            return fd, os.fstat(fd).st_size
        except OSError as error:
            if fd >= 0:
                os.close(fd)
            raise HostError(f'open the log file "{self._path}"', error) from None

    def write(self, stream: str, data: bytes) -> None:
        """Append ``data``, output of the app on ``stream``, to the log.

        If a write fails, counts the bytes in ``lost`` instead of raising an exception, so that a
        full disk does not stop the app.
        """
        lines = format_lines(json_files.now(), stream, data)
        if self._size and self._size + len(lines) > self._limit:
            self._try_to_rotate()
        if self._torn:  # end the entry of which the disk had room for a part only
            lines = b"\n" + lines
        try:
            written = os.write(self._fd, lines)
        except OSError:
            self.lost += len(data)
            return
        self._size += written
        self._torn = written < len(lines)
        if self._torn:
            self.lost += min(len(data), len(lines) - written)

    def _try_to_rotate(self) -> None:
        # If rotation fails, the file exceeds its limit, and the next write tries again.
        try:
            self._rotate()
        except (OSError, HostError):
            pass

    def _rotate(self) -> None:
        if self._exists():  # if not, an interrupted rotation has renamed it already
            self._rename_files()
        fd, size = self._open()
        os.close(self._fd)
        self._fd, self._size = fd, size

    def _exists(self) -> bool:
        try:
            os.lstat(self._path)
        except FileNotFoundError:
            return False
        return True

    def _rename_files(self) -> None:
        for number in range(FILES - 1, 0, -1):
            older = f"{self._path}.{number}"
            newer = f"{self._path}.{number - 1}" if number > 1 else self._path
            try:
                os.rename(newer, older)
            except FileNotFoundError:
                continue

    @property
    def descriptor(self) -> int:
        """The descriptor of the log file; output is written to it without buffering."""
        return self._fd

    def close(self) -> None:
        """Close the log."""
        os.close(self._fd)


def format_lines(time: str, stream: str, data: bytes) -> bytes:
    """Return the log entries for ``data``, an app's output on ``stream`` at ``time``."""
    full = f"{time} {stream} F ".encode()
    partial = f"{time} {stream} P ".encode()
    lines: list[bytes] = []
    texts = data.split(b"\n")
    for text in texts[:-1]:
        while len(text) > LONGEST:
            lines += (partial, text[:LONGEST], b"\n")
            text = text[LONGEST:]  # noqa: PLW2901 - the rest of the line
        lines += (full, text, b"\n")
    unfinished = texts[-1]
    while unfinished:
        lines += (partial, unfinished[:LONGEST], b"\n")
        unfinished = unfinished[LONGEST:]
    return b"".join(lines)
