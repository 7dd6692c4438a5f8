"""Blobs of the image store: ``blobs/ALGORITHM/HEX``, as in an OCI image layout."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import BinaryIO

from ociruntime.base.errors import HostError, ImageError, reason
from ociruntime.base.files import sync_directory
from ociruntime.images.model.digest import check_content, check_digest, hasher, is_digest

CHUNK = 1 << 20


class Blobs:
    """The blobs (manifests, configurations, layers) in the directory ``path`` of the image store.

    Methods raise ImageError for an invalid digest, which could name a file outside ``path``.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def path_of(self, digest: str) -> str:
        algorithm, _, digits = check_digest(digest).partition(":")
        return f"{self.path}/{algorithm}/{digits}"

    def open(self, digest: str) -> BinaryIO:
        """Open a blob for reading.  Raises ImageError if it is missing or cannot be opened."""
        try:
            return open(self.path_of(digest), "rb")
        except OSError as error:
            raise self._unreadable(digest, error) from None

    def size(self, digest: str) -> int:
        """Return the size of a blob in bytes.  Raises ImageError if the blob is missing."""
        try:
            return os.lstat(self.path_of(digest)).st_size
        except OSError as error:
            raise self._unreadable(digest, error) from None

    def _unreadable(self, digest: str, error: OSError) -> ImageError:
        hint = "remove the image with ocipod image rm, and fetch it again"
        return ImageError(f'open blob "{self.path_of(digest)}": {reason(error)}', hint)

    def drop(self, digest: str) -> None:
        """Remove a damaged blob, so that it is fetched again when needed.

        Raises HostError if its file cannot be removed.
        """
        try:
            os.unlink(self.path_of(digest))
        except FileNotFoundError:
            pass
        except OSError as error:
            raise HostError(f'remove blob "{self.path_of(digest)}"', error) from None

    def read(self, digest: str) -> bytes:
        """Return the content of a small blob.

        Raises ImageError if the blob is missing, or if its content does not match the digest.
        """
        with self.open(digest) as blob:
            content = blob.read()
        check_content(content, digest, f'blob "{self.path_of(digest)}"')
        return content

    def is_whole(self, digest: str) -> bool:
        """Read a whole blob; return whether it exists and its content matches the digest."""
        hashed = hasher(check_digest(digest))
        try:
            with open(self.path_of(digest), "rb", buffering=0) as blob:
                while chunk := blob.read(CHUNK):
                    hashed.update(chunk)
        except OSError:
            return False
        return hashed.hexdigest() == digest.partition(":")[2]

    def digests(self) -> Iterator[str]:
        """Yield the digests of all blobs; ignore other files.

        Raises HostError if a directory cannot be read.
        """
        try:
            for algorithm in os.listdir(self.path):
                with os.scandir(f"{self.path}/{algorithm}") as entries:
                    for entry in entries:
                        if is_digest(digest := f"{algorithm}:{entry.name}"):
                            yield digest
        except OSError as error:
            raise HostError(f'read "{self.path}"', error) from None

    def take(self, file: str, digest: str) -> None:
        """Move ``file`` to the path of the blob ``digest``; raise OSError if rename(2) fails.

        The caller must have verified and synced the file.
        """
        os.rename(file, self.path_of(digest))

    def sync(self) -> None:
        """Sync the directories of the blobs, so that new blobs survive a power failure.

        Raises OSError if a directory cannot be synced.
        """
        for algorithm in os.listdir(self.path):
            sync_directory(f"{self.path}/{algorithm}")
