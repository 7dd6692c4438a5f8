"""The image store: blobs by digest, and an index of images and their names.

    $D/cas/index.db         names, times and which image has which blob (database.py)
    $D/cas/blobs/sha256/..  manifests, configurations and layers (blobs.py)
    $D/cas/tmp/..           imports that are under way (incoming.py)
    $D/cas/tree/..          root file systems made of them (tree_store.py)

Only root may enter it: the trees have programs that are setuid.
"""

from __future__ import annotations

import os
import time

from ociruntime.errors import HostError, ImageError
from ociruntime.image.blobs import Blobs
from ociruntime.image.database import explained, open_database, writing
from ociruntime.image.digest import chain_id
from ociruntime.image.frozen import changed, frozen
from ociruntime.image.image import Image
from ociruntime.image.manifest import parse_config, parse_manifest
from ociruntime.image.names import put_name
from ociruntime.image.reference_parts import is_id_digits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType
    from typing import BinaryIO

    from ociruntime.image.image import Descriptor


@frozen
class Record:
    """What the index says of an image, also of one whose blobs are damaged; see Image."""

    id: str
    name: str
    names: tuple[str, ...]
    size: int
    imported: float
    used: float
    index: str


class Store:
    """The store below ``directory``, made if it is not there.

    One process may have several open, and several processes the same one.  Raises HostError.
    """

    def __init__(self, directory: str) -> None:
        self.path = f"{directory}/cas"
        self.blobs = Blobs(f"{self.path}/blobs")
        self.tmp = f"{self.path}/tmp"
        try:
            os.makedirs(directory, 0o755, exist_ok=True)
            for path in (self.path, self.blobs.path, self.tmp):
                os.makedirs(path, 0o700, exist_ok=True)
            for algorithm in ("sha256", "sha512"):
                os.makedirs(f"{self.blobs.path}/{algorithm}", 0o700, exist_ok=True)
        except OSError as error:
            raise HostError(f'make the image store "{self.path}"', error) from None
        self.database = open_database(f"{self.path}/index.db")

    def close(self) -> None:
        self.database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    # Looking up

    def find(self, reference: str, *, use: bool = True) -> Image:
        """The image that a name, an id or the beginning of one means.

        With ``use`` it counts as used now: that protects it from ``image gc`` for a while.
        Raises ImageError.
        """
        image = self.load(self.record(reference))
        if use:
            self.mark_used(image.id)
        return image

    def record(self, reference: str) -> Record:
        """As ``find``, from the index alone.  Raises ImageError."""
        named = "SELECT * FROM records WHERE id = (SELECT image FROM names WHERE name = ?)"
        if found := self._records(named, reference):
            return changed(found[0], name=reference)
        digits = reference.removeprefix("sha256:")
        if is_id_digits(digits):
            low, high = f"sha256:{digits}", f"sha256:{digits}g"
            found = self._records("SELECT * FROM records WHERE id >= ? AND id < ?", low, high)
            if len(found) > 1:
                ids = ", ".join(record.id[:19] for record in found)
                raise ImageError(f'"{reference}" means several images', ids)
        if not found:
            raise ImageError(f'image "{reference}" is not in the store')
        return found[0]

    def records(self) -> list[Record]:
        """Every image, damaged ones too, the oldest import first.  Raises ImageError."""
        return self._records("SELECT * FROM records ORDER BY imported, id")

    def images(self) -> list[Image]:
        """Every image that can be read; ``records`` knows of all."""
        found = []
        for record in self.records():
            try:
                found.append(self.load(record))
            except ImageError:
                continue
        return found

    def load(self, record: Record) -> Image:
        """Reads and checks manifest and configuration.  Raises ImageError."""
        manifest, config, layers = parse_manifest(self.blobs.read(record.id))
        document, joined = parse_config(self.blobs.read(config.digest), layers)
        return Image(
            id=record.id,
            name=record.name,
            names=record.names,
            manifest=manifest,
            config=document,
            config_digest=config.digest,
            layers=joined,
            chain_id=chain_id([layer.diff_id for layer in joined]),
            size=record.size,
            imported=record.imported,
            used=record.used,
            index=record.index,
        )

    def digests(self, id: str) -> list[str]:
        """Of all blobs that the index counts to the image."""
        query = "SELECT blob FROM image_blobs WHERE image = ? ORDER BY blob"
        with explained():
            return [digest for (digest,) in self.database.execute(query, (id,))]

    def _records(self, query: str, *values: str) -> list[Record]:
        with explained():
            rows = self.database.execute(query, values).fetchall()
        found = []
        for id, imported, used, index, joined, size in rows:
            names = tuple(sorted((joined or "").split("\n"))) if joined else ()
            name = names[0] if names else ""
            found.append(Record(id, name, names, size or 0, imported, used, index))
        return found

    # Changing

    def import_image(
        self, manifest: bytes, open_blob: Callable[[Descriptor], BinaryIO], name: str = ""
    ) -> Image:
        """Takes an image in: ``open_blob`` gives a stream for what the store does not have.

        Raises ImageError; then nothing has changed.
        """
        from ociruntime.image.incoming import Incoming

        document, config, layers = parse_manifest(manifest)
        del document
        with Incoming(self) as incoming:
            id = incoming.add_bytes(manifest)
            for blob in (config, *layers):
                if not incoming.has(blob.digest):
                    with open_blob(blob) as stream:
                        incoming.add_blob(stream, blob.digest, blob.size)
            return incoming.commit(id, name)

    def set_name(self, id: str, name: str) -> None:
        """Gives the name to the image, away from any other.  Raises ImageError."""
        with writing(self.database):
            put_name(self.database, id, name)

    def mark_used(self, id: str) -> None:
        """The image counts as used now.  Raises ImageError."""
        with writing(self.database):
            self.database.execute("UPDATE images SET used = ? WHERE id = ?", (time.time(), id))

    def remove(self, ids: Iterable[str]) -> int:
        """Removes images and what no other image needs; returns the bytes that are free now.

        The index forgets them first: a crash leaves files that ``sweep`` removes, never an image
        without its blobs.  Raises ImageError, HostError.
        """
        execute = self.database.execute
        with writing(self.database):
            for id in ids:
                execute("DELETE FROM images WHERE id = ?", (id,))
            gone = execute("SELECT digest FROM unused_blobs").fetchall()
            execute("DELETE FROM blobs WHERE digest IN unused_blobs")
        return self._unlink(digest for (digest,) in gone)[1]

    def sweep(self) -> tuple[int, int]:
        """Removes blobs that no image has and imports that died: how many files, and bytes.

        Raises ImageError, HostError.
        """
        from ociruntime.image.incoming import remove_stale

        stale = remove_stale(self.tmp)
        unknown = self._unlink(self.blobs.digests())
        return stale[0] + unknown[0], stale[1] + unknown[1]

    def _unlink(self, digests: Iterable[str]) -> tuple[int, int]:
        """Removes the files of those that the index does not know.

        Inside a transaction: no import can bring one of them back meanwhile.
        """
        count = total = 0
        known = "SELECT 1 FROM blobs WHERE digest = ?"
        with writing(self.database):
            for digest in list(digests):
                path = self.blobs.path_of(digest)
                if self.database.execute(known, (digest,)).fetchone():
                    continue
                try:
                    size = os.lstat(path).st_size
                    os.unlink(path)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    raise HostError(f'remove "{path}"', error) from None
                count, total = count + 1, total + size
        return count, total
