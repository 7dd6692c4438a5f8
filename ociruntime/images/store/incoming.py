"""Imports: everything is collected beside the store, and taken in at one go or not at all.

An import has a directory of its own below ``cas/tmp``, locked while it lives.  Killed, it leaves
that directory, which the next ``sweep`` removes because nobody holds the lock.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import time
from typing import TYPE_CHECKING

from ociruntime.base.errors import HostError, ImageError
from ociruntime.images.model.blobs import CHUNK, sync_directory
from ociruntime.images.model.digest import check_digest, digest_of, hasher
from ociruntime.images.model.limits import Budget, Limits
from ociruntime.images.model.manifest import parse_config, parse_manifest
from ociruntime.images.model.progress import silent
from ociruntime.images.store.database import writing
from ociruntime.images.store.names import put_name
from ociruntime.images.tar.streams import Readable

if TYPE_CHECKING:
    from ociruntime.images.model.image import Descriptor, Image
    from ociruntime.images.model.progress import Progress
    from ociruntime.images.store.store import Store


class Incoming:
    """One import; a context manager.  Without ``commit`` nothing of it remains.

    ``budget`` pays for what is added; without one the default limits hold.
    Errors: ImageError for what is wrong with the image, HostError for the file system.
    """

    def __init__(self, store: Store, budget: Budget | None = None) -> None:
        self.store = store
        self.budget = budget or Budget.at(store.path, Limits())
        self.path = ""
        self._lock = -1

    def __enter__(self) -> Incoming:
        self.path, self._lock = _new_directory(self.store.tmp)
        return self

    def __exit__(self, *error: object) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)

    def has(self, digest: str) -> bool:
        """Whether the blob need not be added: it is in this import or in the store.

        What is in the store stays available to this import, also if its image is removed.
        """
        if os.path.exists(self._file(digest)):
            return True
        try:
            os.link(self.store.blobs.path_of(digest), self._file(digest))
        except FileNotFoundError:
            return False
        except OSError as error:
            raise HostError(f"link blob {digest}", error) from None
        return True

    def read(self, digest: str) -> bytes:
        """A small blob that the import has."""
        with open(self._file(digest), "rb") as blob:
            return blob.read()

    def add_bytes(self, content: bytes, digest: str = "") -> str:
        """As ``add_blob``, for what is in memory."""
        import io

        return self.add_blob(io.BytesIO(content), digest or digest_of(content), len(content))

    def add_blob(
        self,
        stream: Readable,
        digest: str = "",
        size: int = -1,
        progress: Progress = silent,
        kind: str = "copying",
    ) -> str:
        """Copies a blob and returns its digest.

        ``digest`` and ``size`` (bytes) are what it has to have, if they are known; more than
        ``size`` is not read.  ``progress`` is told the bytes, with ``kind``.
        """
        partial = f"{self.path}/.{secrets.token_hex(8)}"
        found = hasher(check_digest(digest) if digest else "sha256:")
        done = 0
        self.budget.check_bytes(max(size, 0))
        try:
            with open(partial, "xb", buffering=0) as file:
                while chunk := stream.read(CHUNK if size < 0 else min(CHUNK, size - done + 1)):
                    done += len(chunk)
                    if 0 <= size < done:
                        break
                    self.budget.take_bytes(len(chunk))
                    found.update(chunk)
                    _write(file.fileno(), chunk)
                    progress(kind, done, max(size, 0))
                _check(found.name, found.hexdigest(), done, digest, size)
                os.fsync(file.fileno())
            named = digest or f"sha256:{found.hexdigest()}"
            os.rename(partial, self._file(named))
        except OSError as error:
            raise HostError(f"write blob {digest or 'of unknown digest'}", error) from None
        finally:
            if os.path.lexists(partial):
                os.unlink(partial)
        return named

    def adopt(self, path: str, digest: str) -> None:
        """Shares a file beside the store, written out and compared with ``digest``.

        Nobody may change it any more; its own name stays.
        """
        try:
            os.link(path, self._file(digest))
        except OSError as error:
            raise HostError(f'take "{path}"', error) from None

    def commit(
        self, manifest_digest: str, name: str = "", index: str = "", signer: str = ""
    ) -> Image:
        """Takes the image with that manifest into the store, under ``name`` if there is one.

        ``index`` is the digest of the index it was chosen from, if that was added too;
        ``signer`` has signed it for that name, see permission.py.
        """
        needed = self._complete(manifest_digest)
        if index and self.has(index):
            needed[index] = os.path.getsize(self._file(index))
        store = self.store
        now = time.time()
        with writing(store.database):
            execute = store.database.execute
            try:
                for digest in needed:
                    store.blobs.take(self._file(digest), digest)
                store.blobs.sync()
            except OSError as error:
                raise HostError(f'write to "{store.blobs.path}"', error) from None
            execute(
                "INSERT INTO images VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET used = ?,"
                " index_digest = CASE excluded.index_digest WHEN '' THEN index_digest"
                " ELSE excluded.index_digest END",
                (manifest_digest, now, now, index, now),
            )
            for digest, size in needed.items():
                execute("INSERT OR IGNORE INTO blobs VALUES (?, ?)", (digest, size))
                execute(
                    "INSERT OR IGNORE INTO image_blobs VALUES (?, ?)", (manifest_digest, digest)
                )
            if name:
                put_name(store.database, manifest_digest, name, signer)
        return store.find(name or manifest_digest, use=False)

    def _complete(self, manifest_digest: str) -> dict[str, int]:
        """Digests and sizes of all blobs of the image, each of which is here and as described."""
        if not self.has(manifest_digest):
            raise ImageError(f"the manifest {manifest_digest} is missing")
        manifest = self.read(manifest_digest)
        _, config, layers = parse_manifest(manifest)
        needed = {manifest_digest: len(manifest)}
        for number, blob in enumerate((config, *layers)):
            self._check_there(blob, f"layer {number}" if number else "the configuration")
            needed[blob.digest] = blob.size
        parse_config(self.read(config.digest), layers)
        return needed

    def _check_there(self, blob: Descriptor, what: str) -> None:
        if not self.has(blob.digest):
            raise ImageError(f"{what} is missing: {blob.digest}")
        size = os.path.getsize(self._file(blob.digest))
        if size != blob.size:
            raise ImageError(f"{what} has {size} bytes instead of {blob.size}")

    def _file(self, digest: str) -> str:
        return f"{self.path}/{check_digest(digest).replace(':', '-')}"


def remove_stale(tmp: str) -> tuple[int, int]:
    """Removes imports whose process is gone: how many files and bytes.  Raises HostError."""
    count = total = 0
    try:
        for name in os.listdir(tmp):
            path = f"{tmp}/{name}"
            try:
                lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except (FileNotFoundError, NotADirectoryError):
                continue  # gone by now, or nothing of ours
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with os.scandir(lock) as entries:
                    sizes = [entry.stat(follow_symlinks=False).st_size for entry in entries]
                count, total = count + len(sizes) + 1, total + sum(sizes)
                shutil.rmtree(path, ignore_errors=True)
            except BlockingIOError:
                continue
            finally:
                os.close(lock)
        return count, total
    except OSError as error:
        raise HostError(f'clear "{tmp}"', error) from None


def _new_directory(tmp: str) -> tuple[str, int]:
    """A new directory and the descriptor that holds its lock."""
    try:
        while True:
            path = f"{tmp}/{os.getpid()}-{secrets.token_hex(6)}"
            os.mkdir(path, 0o700)
            # Before it is locked a sweep may take it for a leftover.
            try:
                lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            fcntl.flock(lock, fcntl.LOCK_EX)
            if os.fstat(lock).st_nlink:
                sync_directory(tmp)
                return path, lock
            os.close(lock)
    except OSError as error:
        raise HostError(f'make a directory in "{tmp}"', error) from None


def _write(fd: int, chunk: bytes) -> None:
    view = memoryview(chunk)
    while view:
        view = view[os.write(fd, view) :]


def _check(algorithm: str, hexadecimal: str, done: int, digest: str, size: int) -> None:
    what = f"blob {digest}" if digest else "a blob"
    if 0 <= size < done:
        raise ImageError(f"{what} is longer than the {size} bytes it should have")
    if 0 <= size != done:
        raise ImageError(f"{what} ends after {done} of {size} bytes")
    if digest and digest != f"{algorithm}:{hexadecimal}":
        raise ImageError(f"digest mismatch: {algorithm}:{hexadecimal} instead of {digest}")
