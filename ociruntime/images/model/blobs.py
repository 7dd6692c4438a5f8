"""The blobs of the store: ``blobs/ALGORITHM/HEX`` below its directory, as in an image layout."""

from __future__ import annotations

import os

from ociruntime.base.errors import HostError, ImageError
from ociruntime.images.model.digest import check_content, check_digest, hasher, is_digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

CHUNK = 1 << 20


class Blobs:
    """``path`` is the directory ``blobs``; every digest given is checked before it is used."""

    def __init__(self, path: str) -> None:
        self.path = path

    def path_of(self, digest: str) -> str:
        algorithm, _, digits = check_digest(digest).partition(":")
        return f"{self.path}/{algorithm}/{digits}"

    def open(self, digest: str) -> BinaryIO:
        """Raises ImageError if it is not there."""
        try:
            return open(self.path_of(digest), "rb")
        except OSError as error:
            raise ImageError(f"blob {digest} is missing: {error.strerror}", _HINT) from None

    def size(self, digest: str) -> int:
        """In bytes.  Raises ImageError if it is not there."""
        try:
            return os.lstat(self.path_of(digest)).st_size
        except OSError as error:
            raise ImageError(f"blob {digest} is missing: {error.strerror}", _HINT) from None

    def drop(self, digest: str) -> None:
        """Removes one that is damaged, so that it is fetched again when it is needed.

        Raises HostError.
        """
        try:
            os.unlink(self.path_of(digest))
        except FileNotFoundError:
            pass
        except OSError as error:
            raise HostError(f"remove blob {digest}", error) from None

    def read(self, digest: str) -> bytes:
        """A small one, whole and checked.  Raises ImageError."""
        with self.open(digest) as blob:
            content = blob.read()
        check_content(content, digest, "a blob of the store")
        return content

    def is_whole(self, digest: str) -> bool:
        """Whether it is there with the right content: reads all of it."""
        found = hasher(check_digest(digest))
        try:
            with open(self.path_of(digest), "rb", buffering=0) as blob:
                while chunk := blob.read(CHUNK):
                    found.update(chunk)
        except OSError:
            return False
        return found.hexdigest() == digest.partition(":")[2]

    def digests(self) -> Iterator[str]:
        """Every blob there is a file of; other files are not looked at."""
        try:
            for algorithm in os.listdir(self.path):
                with os.scandir(f"{self.path}/{algorithm}") as entries:
                    for entry in entries:
                        if is_digest(digest := f"{algorithm}:{entry.name}"):
                            yield digest
        except OSError as error:
            raise HostError(f'read "{self.path}"', error) from None

    def take(self, file: str, digest: str) -> None:
        """Makes the checked, written out ``file`` the blob.  Raises OSError."""
        os.rename(file, self.path_of(digest))

    def sync(self) -> None:
        """Has the names on disk.  Raises OSError."""
        for algorithm in os.listdir(self.path):
            sync_directory(f"{self.path}/{algorithm}")


def sync_directory(path: str) -> None:
    """Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


_HINT = "remove the image, and fetch it again"
