"""Resumable downloads: received data is kept beside the store until the blob is complete.

    $D/cas/partial/sha256-HEX    the first bytes of that blob, locked while it grows

The name is the digest, so a download can be resumed from any registry that has the blob.  A
complete file is kept until its image is in the store, which then has a hard link to it.
"""

from __future__ import annotations

import fcntl
import os
import time
from typing import TYPE_CHECKING

from ociruntime.base.errors import HostError, ImageError, RegistryError
from ociruntime.images.model.digest import hasher
from ociruntime.images.model.image import Descriptor
from ociruntime.images.model.progress import Progress
from ociruntime.images.registry.sources import Sources

if TYPE_CHECKING:
    from requests import Response

_ATTEMPTS = 5  # connections without receiving a byte
_CHUNK = 1 << 18


class Download:
    """The download of a blob: the data of earlier attempts, then the registry's.

    A context manager, in which other downloads of the same blob wait.  The file at ``path`` stays
    until ``discard``.
    """

    def __init__(self, directory: str, sources: Sources, blob: Descriptor) -> None:
        self.path = f"{directory}/{blob.digest.replace(':', '-')}"
        self.blob = blob
        self.resumed = 0  # bytes from earlier attempts
        self._sources = sources
        self._file = -1
        self._at = 0
        self._kept = 0
        self._response: Response | None = None

    def __enter__(self) -> Download:
        try:
            os.makedirs(os.path.dirname(self.path), 0o700, exist_ok=True)
            self._file = _open_locked(self.path, self.blob.size)
            self._kept = os.fstat(self._file).st_size
            if self._kept > self.blob.size:
                self._forget()
        except OSError as error:
            raise HostError(f"keep a download in {self.path}", error) from None
        self.resumed = self._kept
        return self

    def __exit__(self, *error: object) -> None:
        self._disconnect()
        try:
            if not os.fstat(self._file).st_size:
                self.discard()
        finally:
            os.close(self._file)

    def complete(self, progress: Progress, kind: str) -> None:
        """Download the rest and verify the digest.

        Raises HostError, RegistryError if the download fails, ImageError for the wrong content.
        """
        digest, size = self.blob.digest, self.blob.size
        found = hasher(digest)
        while data := self._next():
            found.update(data)
            progress(kind, self._at, size)
        if f"{found.name}:{found.hexdigest()}" != digest:
            came = f"{found.name}:{found.hexdigest()}"
            raise ImageError(f"digest mismatch: expected {digest}, got {came}")
        try:
            os.fsync(self._file)
        except OSError as error:
            raise HostError(f"write {self.path}", error) from None

    def discard(self) -> None:
        """Remove the file: the image is in the store, or the content is wrong."""
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise HostError(f"remove {self.path}", error) from None

    def _next(self) -> bytes:
        """Return the next bytes, b"" at the end of the blob."""
        wanted = min(_CHUNK, self.blob.size - self._at)
        if wanted <= 0:
            return b""
        try:
            if self._at < self._kept:
                data = os.pread(self._file, min(wanted, self._kept - self._at), self._at)
            else:
                data = self._receive(wanted)
                _write(self._file, data, self._at)
        except OSError as error:
            raise HostError(f"keep a download in {self.path}", error) from None
        self._at += len(data)
        return data

    def _receive(self, wanted: int) -> bytes:
        """Return some bytes from the registry, reconnecting after a cut connection."""
        reason = ""
        for _ in range(_ATTEMPTS):
            if self._response is None:
                self._connect()
            data, reason = _read(self._response, wanted)
            if data:
                return data
            self._disconnect()
        what = f"blob {self.blob.digest} after {self._at} of {self.blob.size} bytes"
        raise RegistryError(f"the connection was cut: {what}: {reason}", "fetch again to go on")

    def _connect(self) -> None:
        response, begin = self._sources.open_blob(self.blob.digest, self._at)
        self._response = response
        length = response.headers.get("Content-Length", "")
        if length.isdigit() and begin + int(length) != self.blob.size:
            self._disconnect()
            total = begin + int(length)
            words = f"blob {self.blob.digest}: size mismatch: expected {self.blob.size} bytes"
            raise ImageError(f"{words}, got {total} from {response.url.partition('?')[0]}")
        while begin < self._at:  # the registry ignores ranges: skip what we have
            data, reason = _read(response, min(_CHUNK, self._at - begin))
            if not data:
                self._disconnect()
                raise RegistryError(f"blob {self.blob.digest}: {reason}", "fetch again")
            begin += len(data)

    def _disconnect(self) -> None:
        if self._response is not None:
            self._response.close()
            self._response = None

    def _forget(self) -> None:
        os.ftruncate(self._file, 0)
        self._kept = 0


def remove_stale(directory: str, age: float) -> tuple[int, int]:
    """Remove downloads unchanged for ``age`` seconds; return the number of files and bytes.

    Raises HostError.
    """
    count = total = 0
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return 0, 0
    except OSError as error:
        raise HostError(f"read {directory}", error) from None
    for name in names:
        path = f"{directory}/{name}"
        try:
            file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise HostError(f"open {path}", error) from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found = os.fstat(file)
            if _is_at(path, found) and time.time() - found.st_mtime >= age:
                os.unlink(path)
                count, total = count + 1, total + found.st_size
        except BlockingIOError:
            continue
        except OSError as error:
            raise HostError(f"remove {path}", error) from None
        finally:
            os.close(file)
    return count, total


def _open_locked(path: str, size: int) -> int:
    """Open and lock the file at ``path``; retry if its previous owner has removed it meanwhile.

    A file that is also linked by an import or the store must not be written: use it if it has
    ``size`` bytes, otherwise replace it.
    """
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            found = os.fstat(file)
            if _is_at(path, found):
                if found.st_nlink == 1 or found.st_size == size:
                    return file
                os.unlink(path)
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def _is_at(path: str, file: os.stat_result) -> bool:
    """Return whether ``path`` still refers to the file, which may have other names."""
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
    """Return the bytes read, and why there are none."""
    assert response is not None
    try:
        data: bytes = response.raw.read(size, decode_content=False)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - errors of sockets, TLS, chunking: connection cut
        return b"", " ".join(str(error).split()) or type(error).__name__
    return data, "it ended early"
