"""Import an image: collect its blobs in a directory below ``cas/tmp``, then commit them atomically.

The directory is locked during the import.  ``Store.sweep`` removes directories of killed imports.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import time
from typing import TYPE_CHECKING

from ociruntime.base.errors import HostError, ImageError
from ociruntime.base.files import is_there, sync_directory, write_all
from ociruntime.images.model.blobs import CHUNK
from ociruntime.images.model.digest import check_digest, digest_of, hasher
from ociruntime.images.model.image import Descriptor, Image, Progress, silent
from ociruntime.images.model.image_limits import Budget, Limits
from ociruntime.images.model.manifest import parse_config, parse_manifest
from ociruntime.images.store.database import put_name, writing
from ociruntime.images.tar.decompression import Readable

if TYPE_CHECKING:
    from ociruntime.images.store.store import Store


class Incoming:
    """A context manager for the import of an image into ``store``.

    Without ``commit``, the store stays unchanged.  ``budget`` limits the blobs that can be added;
    None means the default limits.  Methods raise ImageError if the image is invalid or exceeds a
    limit, HostError if a file cannot be read or written.
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
        """Return whether this import or the store has the blob ``digest``.

        If the store has the blob, links it into the import.  The blob then still exists at the
        commit, even if another process removes its image from the store.
        """
        try:
            os.link(self.store.blobs.path_of(digest), self._file(digest))
        except FileNotFoundError:
            return is_there(self._file(digest))
        except FileExistsError:
            return True
        except OSError as error:
            raise HostError(f'link blob {digest} into "{self.path}"', error) from None
        return True

    def read(self, digest: str) -> bytes:
        """Return the content of a small blob of this import."""
        try:
            with open(self._file(digest), "rb") as blob:
                return blob.read()
        except OSError as error:
            raise HostError(f"read blob {digest}", error) from None

    def add_bytes(self, content: bytes, digest: str = "") -> str:
        """Add ``content`` as a blob and return its digest; verify ``digest`` if given."""
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
        """Copy a blob from a stream into the import and return its digest.

        Verifies ``digest`` and ``size`` (bytes) if they are given, and stops reading once the
        stream exceeds ``size``.  ``kind`` is the label for ``progress``.
        """
        partial = f"{self.path}/.{secrets.token_hex(8)}"
        hashed = hasher(check_digest(digest) if digest else "sha256:")
        done = 0
        self.budget.check_bytes(max(size, 0))
        try:
            with open(partial, "xb", buffering=0) as file:
                while chunk := stream.read(CHUNK if size < 0 else min(CHUNK, size - done + 1)):
                    done += len(chunk)
                    if 0 <= size < done:
                        break
                    self.budget.take_bytes(len(chunk))
                    hashed.update(chunk)
                    write_all(file.fileno(), chunk)
                    progress(kind, done, max(size, 0))
                actual = f"{hashed.name}:{hashed.hexdigest()}"
                _check(actual, done, digest, size)
                os.fsync(file.fileno())
            os.rename(partial, self._file(actual))
        except OSError as error:
            raise HostError(f"write blob {digest or partial}", error) from None
        finally:
            if os.path.lexists(partial):
                os.unlink(partial)
        return actual

    def adopt(self, path: str, digest: str) -> None:
        """Add the file at ``path`` as a blob, using a hard link.

        The caller must have synced the file and verified its digest, and must not write to it any
        more.
        """
        try:
            os.link(path, self._file(digest))
        except OSError as error:
            raise HostError(f'link "{path}" into "{self.path}"', error) from None

    def commit(
        self, manifest_digest: str, name: str = "", index: str = "", signer: str = ""
    ) -> Image:
        """Move the image with this manifest into the store, and return the image.

        ``name`` is its name in the store, or "".  ``index`` is the digest of the index that lists
        the image, or "".  ``signer`` is recorded with the name (see check_stored_image.py).
        """
        needed = self._complete(manifest_digest)
        if index and self.has(index):
            needed[index] = self._size(index)
        store = self.store
        now = time.time()
        with writing(store.database):
            execute = store.database.execute
            try:
                for digest in needed:
                    store.blobs.take(self._file(digest), digest)
                store.blobs.sync()
            except OSError as error:
                raise HostError(f'move blobs to "{store.blobs.path}"', error) from None
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
        """Return {digest: size in bytes} of an image's blobs.

        Raises ImageError if a blob is missing or invalid.
        """
        if not self.has(manifest_digest):
            raise ImageError(f"import image {manifest_digest}: its manifest is missing")
        manifest = self.read(manifest_digest)
        _, config, layers = parse_manifest(manifest, f"manifest {manifest_digest}")
        needed = {manifest_digest: len(manifest)}
        for number, blob in enumerate((config, *layers)):
            what = f"layer {number}" if number else "configuration"
            self._check_blob(blob, f"import image {manifest_digest}: {what} {blob.digest}")
            needed[blob.digest] = blob.size
        parse_config(self.read(config.digest), layers, f"image configuration {config.digest}")
        return needed

    def _check_blob(self, blob: Descriptor, what: str) -> None:
        if not self.has(blob.digest):
            raise ImageError(f"{what} is missing")
        size = self._size(blob.digest)
        if size != blob.size:
            raise ImageError(f"{what}: size mismatch: expected {blob.size} bytes, got {size}")

    def _size(self, digest: str) -> int:
        try:
            return os.stat(self._file(digest)).st_size
        except OSError as error:
            raise HostError(f"read blob {digest}", error) from None

    def _file(self, digest: str) -> str:
        return f"{self.path}/{check_digest(digest).replace(':', '-')}"


def remove_stale(tmp: str) -> tuple[int, int]:
    """Remove the imports that killed processes have left in ``tmp``.

    Returns (number of files, their total bytes).  Raises HostError if an import cannot be opened or
    read.
    """
    count = total = 0
    try:
        for name in os.listdir(tmp):
            path = f"{tmp}/{name}"
            try:
                lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except (FileNotFoundError, NotADirectoryError):
                continue  # removed meanwhile, or not an import
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
        raise HostError(f'remove stale imports in "{tmp}"', error) from None


def _new_directory(tmp: str) -> tuple[str, int]:
    """Create and lock a directory for an import; return (path, descriptor that holds the lock)."""
    try:
        while True:
            path = f"{tmp}/{os.getpid()}-{secrets.token_hex(6)}"
            os.mkdir(path, 0o700)
            # A concurrent sweep may remove the directory before it is locked: then try again.
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
        raise HostError(f'create a directory in "{tmp}"', error) from None


def _check(actual: str, done: int, digest: str, size: int) -> None:
    """Raise ImageError if a blob does not have the expected ``digest`` and ``size`` in bytes.

    ``actual`` and ``done`` are its actual digest and size.  The ``digest`` "" and the ``size`` -1
    match any blob.
    """
    what = f"import blob {digest}" if digest else "import blob"
    if 0 <= size < done:
        raise ImageError(f"{what}: size mismatch: longer than the expected {size} bytes")
    if 0 <= size != done:
        raise ImageError(f"{what}: size mismatch: ends after {done} of {size} bytes")
    if digest and digest != actual:
        raise ImageError(f"{what}: digest mismatch: expected {digest}, got {actual}")
