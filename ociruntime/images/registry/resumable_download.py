"""Download a blob from a registry to a file, resuming earlier attempts.

    $D/cas/partial/sha256-HEX    the first bytes of the blob; locked during a download

The file's name is the digest, so a download can be resumed from any registry that has the blob.  A
complete file is kept until the image and its blobs are in the store.  If another process holds the
lock for too long, because its registry is slow, a download uses a separate file
``sha256-HEX.RANDOM``, which is never resumed.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from ociruntime.base.errors import HostError, ImageError, RegistryError
from ociruntime.base.files import whole_number
from ociruntime.images.model.digest import hasher
from ociruntime.images.model.image import Descriptor
from ociruntime.images.registry.sources import Sources

if TYPE_CHECKING:  # requests is an extra: commands without a registry run without it
    from requests import Response

_ATTEMPTS = 5  # the maximum number of successive connections that deliver no data
_CHUNK = 1 << 18
_WAIT = 3.0  # seconds to wait for another process that downloads the same blob
_LONGEST_WAIT = 60.0  # seconds to wait if the other process receives data at _RATE
_RATE = 1 << 20  # bytes per second
_POLL = 0.05  # seconds between two attempts to lock the file


class Download:
    """The download of a blob to the file ``path``; it resumes earlier attempts.

    Entering the context locks the file.  If another process holds the lock, this one waits ``wait``
    seconds, or longer, up to _LONGEST_WAIT seconds, while the other process receives data at _RATE.
    After that, it uses a separate file.  Leaving the context removes the file if it is empty or
    separate.  Any other file stays until ``discard`` is called.
    """

    def __init__(
        self, directory: str, sources: Sources, blob: Descriptor, wait: float = _WAIT
    ) -> None:
        self.path = partial_path(directory, blob.digest)
        self.blob = blob
        self.resumed = 0  # bytes from earlier attempts
        self._sources = sources
        self._wait = wait
        self._private = False
        self._file = -1
        self._at = 0
        self._size = 0
        self._response: Response | None = None

    def __enter__(self) -> Download:
        try:
            os.makedirs(os.path.dirname(self.path), 0o700, exist_ok=True)
            self._file = _open_locked(self.path, self.blob.size, self._wait)
            if self._file < 0:
                self.path, self._private = f"{self.path}.{secrets.token_hex(8)}", True
                self._file = _open_locked(self.path, self.blob.size, self._wait)
            self._size = os.fstat(self._file).st_size
            if self._size > self.blob.size:
                self._truncate()
        except OSError as error:
            if self._file >= 0:
                os.close(self._file)
            raise HostError(f'open download "{self.path}"', error) from None
        self.resumed = self._size
        return self

    def __exit__(self, *error: object) -> None:
        self._disconnect()
        try:
            if self._private or not os.fstat(self._file).st_size:
                self.discard()
        finally:
            os.close(self._file)

    def complete(self, took: Callable[[int, int], None] | None = None) -> None:
        """Download the rest of the blob to the file, and verify the digest.

        Calls ``took(count, done)`` before it writes ``count`` bytes, and also for bytes that an
        earlier attempt has written; ``done`` is the sum so far.  An exception from ``took`` ends
        the download.  Raises HostError if the file cannot be written, RegistryError if the download
        fails, ImageError for wrong content.
        """
        digest = self.blob.digest
        hashed = hasher(digest)
        while data := self._next(took or _ignore):
            hashed.update(data)
        actual = f"{hashed.name}:{hashed.hexdigest()}"
        if actual != digest:
            raise ImageError(f"download blob: digest mismatch: expected {digest}, got {actual}")
        try:
            os.fsync(self._file)
        except OSError as error:
            raise HostError(f'write "{self.path}"', error) from None

    def discard(self) -> None:
        """Remove the downloaded file; raise HostError if it cannot be removed."""
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise HostError(f'remove "{self.path}"', error) from None

    def interrupt(self) -> None:
        """Make a pending read from the registry fail at once; call it from another thread."""
        response = self._response
        shutdown = getattr(response.raw, "shutdown", None) if response is not None else None
        if shutdown is not None:
            with suppress(Exception):  # the response may be closed meanwhile
                shutdown()

    def _next(self, took: Callable[[int, int], None]) -> bytes:
        """Return the blob's next bytes, from the file or from the registry; b"" at the end."""
        size = min(_CHUNK, self.blob.size - self._at)
        if size <= 0:
            return b""
        try:
            if self._at < self._size:
                data = os.pread(self._file, min(size, self._size - self._at), self._at)
                took(len(data), self._at + len(data))
            else:
                data = self._receive(size)
                took(len(data), self._at + len(data))
                _write(self._file, data, self._at)
        except OSError as error:
            raise HostError(f'read or write the partial download "{self.path}"', error) from None
        self._at += len(data)
        return data

    def _receive(self, size: int) -> bytes:
        """Return up to ``size`` bytes from the registry; reconnect if the connection fails."""
        reason = ""
        for _ in range(_ATTEMPTS):
            if self._response is None:
                self._connect()
            data, reason = _read(self._response, size)
            if data:
                return data
            self._disconnect()
        message = f"interrupted after {self._at} of {self.blob.size} bytes: {reason}"
        hint = "fetch again to resume the download"
        raise RegistryError(f"download blob {self.blob.digest}: {message}", hint)

    def _connect(self) -> None:
        response, begin = self._sources.open_blob(self.blob.digest, self._at)
        self._response = response
        length = whole_number(response.headers.get("Content-Length", ""))
        if length is not None and begin + length != self.blob.size:
            self._disconnect()
            total = begin + length
            message = f"size mismatch: expected {self.blob.size} bytes, got {total}"
            url = response.url.partition("?")[0]
            raise ImageError(f"download blob {self.blob.digest}: {message} from {url}")
        while begin < self._at:  # the registry does not support ranges: skip known bytes
            data, reason = _read(response, min(_CHUNK, self._at - begin))
            if not data:
                self._disconnect()
                hint = "fetch again to resume the download"
                raise RegistryError(f"download blob {self.blob.digest}: {reason}", hint)
            begin += len(data)

    def _disconnect(self) -> None:
        if self._response is not None:
            self._response.close()
            self._response = None

    def _truncate(self) -> None:
        os.ftruncate(self._file, 0)
        self._size = 0


def _ignore(count: int, done: int) -> None:
    del count, done


def partial_path(directory: str, digest: str) -> str:
    """Return the path of a blob's download: ``DIRECTORY/sha256-HEX``."""
    return f"{directory}/{digest.replace(':', '-')}"


def remove_stale(directory: str, age: float) -> tuple[int, int]:
    """Remove the files of interrupted downloads that were last written ``age`` seconds ago or more.

    Returns (number of removed files, their total size in bytes).  Raises HostError if a file cannot
    be opened or removed.
    """
    count = total = 0
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return 0, 0
    except OSError as error:
        raise HostError(f'read directory "{directory}"', error) from None
    for name in names:
        path = f"{directory}/{name}"
        try:
            file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise HostError(f'open "{path}"', error) from None
        try:
            locked = _lock(file)
            facts = os.fstat(file)
            if locked and _is_at(path, facts) and time.time() - facts.st_mtime >= age:
                os.unlink(path)
                count, total = count + 1, total + facts.st_size
        except OSError as error:
            raise HostError(f'remove "{path}"', error) from None
        finally:
            os.close(file)
    return count, total


def _open_locked(path: str, size: int, wait: float) -> int:
    """Open or create the file at ``path`` and lock it; return its descriptor.

    If another process holds the lock, waits ``wait`` seconds, or longer while that process receives
    data at _RATE, up to _LONGEST_WAIT seconds.  Returns -1 if that process holds the lock even
    longer.

    If an import or the store has a hard link to the file, the file must not be written any more.
    Returns its descriptor if the file is complete, that is, if it has ``size`` bytes; otherwise
    replaces it by a new file.  Tries again if the previous lock holder removed the file.
    """
    deadline = time.monotonic() + wait
    end, received = deadline - wait + _LONGEST_WAIT, 0
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        keep_open = False
        try:
            locked = _lock(file)
            facts = os.fstat(file)
            if locked and _is_at(path, facts):
                if facts.st_nlink == 1 or facts.st_size == size:
                    keep_open = True
                    return file
                os.unlink(path)
        finally:
            if not keep_open:
                os.close(file)
        if locked:
            continue
        if (now := time.monotonic()) >= deadline:
            if not wait or now >= end or facts.st_size - received < wait * _RATE:
                return -1
            deadline, received = now + wait, facts.st_size
        time.sleep(_POLL)


def _lock(file: int) -> bool:
    """Lock an open file exclusively; return False if another process has locked it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(path: str, file: os.stat_result) -> bool:
    """Return whether ``path`` still refers to the open file with the status ``file``."""
    try:
        return os.path.samestat(os.lstat(path), file)
    except FileNotFoundError:
        return False


def _write(file: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        count = os.pwrite(file, view, at)
        view, at = view[count:], at + count


def _read(response: Response | None, size: int) -> tuple[bytes, str]:
    """Read up to ``size`` bytes from a response; return (bytes, error message).

    The error message explains why no more bytes are available; ignore it unless the bytes are b"".
    """
    assert response is not None
    try:
        data: bytes = response.raw.read(size, decode_content=False)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - sockets, TLS, chunking: many types of errors
        return b"", " ".join(str(error).split()) or type(error).__name__
    return data, "the registry closed the connection"
