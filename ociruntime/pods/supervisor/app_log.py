"""An app's log file, in the Kubernetes (CRI) log format.

A line is ``TIME stdout|stderr F|P TEXT``.  P marks part of a line: it was written without a line
feed, or is longer than ``LONGEST``, and continues in the next entry of its stream.  A file that
reaches its limit is rotated to NAME.1, that one to NAME.2, and so on.
"""

from __future__ import annotations

import os

from ociruntime.base import json_files
from ociruntime.base.errors import HostError

LONGEST = 16384  # maximum bytes of text in an entry
LIMIT = 10 << 20  # bytes of a file before it is rotated
FILES = 3


class AppLog:
    """An open log file; ``lost`` counts the bytes that could not be written."""

    __slots__ = ("_fd", "_limit", "_path", "_size", "lost")

    def __init__(self, path: str, limit: int = LIMIT, fd: int = -1) -> None:
        """Open the log; ``fd`` is its descriptor if it is open already, or -1.

        Raises HostError.
        """
        self._path = path
        self._limit = limit
        self.lost = 0
        self._fd, self._size = self._open() if fd < 0 else (fd, os.fstat(fd).st_size)

    def _open(self) -> tuple[int, int]:
        """Open the log, creating it if needed; its descriptor and size.  Raises HostError."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = -1
        try:
            fd = os.open(self._path, flags, 0o640)
            return fd, os.fstat(fd).st_size
        except OSError as error:
            if fd >= 0:
                os.close(fd)
            raise HostError(f"open the log {self._path}", error) from None

    def write(self, stream: str, data: bytes) -> None:
        """Append a chunk of output from ``stream``.

        Never raises: the app must not be disturbed.
        """
        lines = format_lines(json_files.now(), stream, data)
        if self._size and self._size + len(lines) > self._limit:
            self._try_to_rotate()
        try:
            self._size += os.write(self._fd, lines)
        except OSError:
            self.lost += len(data)

    def _try_to_rotate(self) -> None:
        # On failure the file grows past its limit, and the next write tries again.
        try:
            self._rotate()
        except (OSError, HostError):
            pass

    def _rotate(self) -> None:
        if self._is_there():  # otherwise an earlier attempt has already renamed it to NAME.1
            self._set_aside()
        fd, size = self._open()
        os.close(self._fd)
        self._fd, self._size = fd, size

    def _is_there(self) -> bool:
        try:
            os.lstat(self._path)
        except FileNotFoundError:
            return False
        return True

    def _set_aside(self) -> None:
        for number in range(FILES - 1, 0, -1):
            older = f"{self._path}.{number}"
            newer = f"{self._path}.{number - 1}" if number > 1 else self._path
            try:
                os.rename(newer, older)
            except FileNotFoundError:
                continue

    @property
    def descriptor(self) -> int:
        """The log's descriptor; writes are not buffered."""
        return self._fd

    def close(self) -> None:
        """Close the log."""
        os.close(self._fd)


def format_lines(time: str, stream: str, data: bytes) -> bytes:
    """Format ``data`` as entries of a log."""
    whole = f"{time} {stream} F ".encode()
    piece = f"{time} {stream} P ".encode()
    lines: list[bytes] = []
    texts = data.split(b"\n")
    for text in texts[:-1]:
        while len(text) > LONGEST:
            lines += (piece, text[:LONGEST], b"\n")
            text = text[LONGEST:]  # noqa: PLW2901 - the rest of the line
        lines += (whole, text, b"\n")
    rest = texts[-1]
    while rest:
        lines += (piece, rest[:LONGEST], b"\n")
        rest = rest[LONGEST:]
    return b"".join(lines)
