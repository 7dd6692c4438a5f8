"""The image store: blobs by digest, and a database of images and their names.

    $D/cas/index.db         images, their names, times and blobs (database.py)
    $D/cas/blobs/sha256/..  manifests, configurations and layers (blobs.py)
    $D/cas/tmp/..           imports in progress (import_image.py)
    $D/cas/tree/..          root filesystems unpacked from images (tree_store.py)

Only root may enter the directory, because the trees contain setuid programs.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from dataclasses import replace

from ociruntime.base.errors import HostError, ImageError
from ociruntime.base.trusted_directories import make_directory
from ociruntime.images.model.blobs import Blobs
from ociruntime.images.model.digest import chain_id
from ociruntime.images.model.image import Image, Record
from ociruntime.images.model.manifest import parse_config, parse_manifest
from ociruntime.images.model.reference import is_id_digits


class Store:
    """The image store in the data directory ``directory``, which is created if necessary.

    Several processes may use the store at once.  The constructor raises HostError if a directory
    cannot be created.
    """

    def __init__(self, directory: str) -> None:
        self.path = f"{directory}/cas"
        self.blobs = Blobs(f"{self.path}/blobs")
        self.tmp = f"{self.path}/tmp"
        make_directory(os.path.abspath(directory), 0o755, "data directory")
        kinds = [f"{self.blobs.path}/{algorithm}" for algorithm in ("sha256", "sha512")]
        for path in (self.path, self.blobs.path, self.tmp, *kinds):
            make_directory(os.path.abspath(path), 0o700, "image store")
        self._index = f"{self.path}/index.db"
        self._database: sqlite3.Connection | None = None

    @property
    def database(self) -> sqlite3.Connection:
        """The connection to the store's database, opened at its first use.

        Raises ImageError if the database cannot be opened.
        """
        if self._database is None:
            from ociruntime.images.store.database import open_database

            self._database = open_database(self._index)
        return self._database

    def close(self) -> None:
        if self._database is not None:
            self._database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # Look up

    def find(self, reference: str, *, use: bool = True, digest: str = "") -> Image:
        """Return the stored image that ``reference`` names by full name, id or unique id prefix.

        With ``use``, marks the image as used now, which protects it from ``image gc`` for a while.
        If ``digest`` is given, the image's manifest or an index that lists the image must have this
        digest.  Raises ImageError if the image is missing, damaged or has another digest, HostError
        if it cannot be marked as used.
        """
        image = self.load(self.record(reference))
        if digest and not self._has_digest(image, digest):
            raise ImageError(
                f'image "{reference}" in the store does not have this digest', "fetch it again"
            )
        if use:
            self.mark_used(image.id)
        return image

    def _has_digest(self, image: Image, digest: str) -> bool:
        """Return whether the image's manifest, or an index that lists it, has this digest."""
        if digest in (image.id, image.index):
            return True
        parts = {image.config_digest, *(layer.digest for layer in image.layers)}
        return digest not in parts and digest in self.digests(image.id)

    def record(self, reference: str) -> Record:
        """Return the record of the image that ``find`` would return, without reading its blobs.

        Raises ImageError if there is no such image.
        """
        return _chosen(self.records(), reference)

    def records(self) -> list[Record]:
        """Return the records of all images, including damaged images, oldest import first.

        Raises ImageError if the database cannot be read.
        """
        from ociruntime.images.store.database import explained

        with explained():
            rows = self.database.execute("SELECT * FROM records ORDER BY imported, id").fetchall()
            signed = self.database.execute("SELECT * FROM origins ORDER BY name").fetchall()
        origins: dict[str, list[tuple[str, str]]] = {}
        for id, name, signer in signed:
            origins.setdefault(id, []).append((name, signer))
        records = []
        for id, imported, used, index, joined, size in rows:
            names = tuple(sorted(joined.split("\n"))) if joined else ()
            name = names[0] if names else ""
            used = max(used, self._marked(id))  # noqa: PLW2901 - the later time
            imports = tuple(origins.get(id, ()))
            records.append(Record(id, name, names, size or 0, imported, used, index, imports))
        return records

    def images(self) -> list[Image]:
        """Return all images except damaged images; ``records`` includes those as well."""
        images = []
        for record in self.records():
            try:
                images.append(self.load(record))
            except ImageError:
                continue
        return images

    def load(self, record: Record) -> Image:
        """Read an image's manifest and configuration, and return the image.

        Raises ImageError if a blob is missing, damaged or invalid.
        """
        data = self.blobs.read(record.id)
        manifest, config, layers = parse_manifest(data, f"manifest {record.id}")
        what = f"image configuration {config.digest}"
        document, joined = parse_config(self.blobs.read(config.digest), layers, what)
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
        """Return the digests of all blobs of the image ``id``.

        Raises ImageError if the database cannot be read.
        """
        from ociruntime.images.store.database import explained

        query = "SELECT blob FROM image_blobs WHERE image = ? ORDER BY blob"
        with explained():
            return [digest for (digest,) in self.database.execute(query, (id,))]

    def origins(self, id: str) -> dict[str, str]:
        """Return {name: signer} for the names under which the image ``id`` was imported.

        The import verified a signature by this signer; "" means that no signature was required.
        """
        return next((dict(record.origins) for record in self.records() if record.id == id), {})

    # Modify

    def set_name(self, id: str, name: str) -> None:
        """Make ``name`` refer to the image ``id``; the image that had the name before loses it.

        Raises ImageError for an invalid name.
        """
        self.claim_name(id, name, replace=True)

    def claim_name(self, id: str, name: str, *, replace: bool) -> str:
        """Make ``name`` refer to the image ``id``, unless another image has the name.

        With ``replace``, the other image loses the name.  Returns the id of the other image if it
        keeps the name, otherwise "".  The signature policy still applies to the names under which
        the image was imported.  Raises ImageError for an invalid name.
        """
        from ociruntime.images.store.database import claim_name, writing

        with writing(self.database):
            return claim_name(self.database, id, name, replace=replace)

    def remove_name(self, id: str, name: str) -> bool:
        """Remove the name ``name`` of an image, unless it is the image's only name.

        Returns whether the name was removed.  Raises ImageError if the database cannot be written.
        """
        from ociruntime.images.store.database import writing

        with writing(self.database):
            query = "SELECT 1 FROM names WHERE image = ? AND name != ?"
            if not self.database.execute(query, (id, name)).fetchone():
                return False
            self.database.execute("DELETE FROM names WHERE image = ? AND name = ?", (id, name))
        return True

    def mark_used(self, id: str) -> None:
        """Mark an image as used now: set the mtime of its manifest's file.

        Raises HostError if the mtime cannot be set.
        """
        try:
            os.utime(self.blobs.path_of(id))
        except OSError as error:
            raise HostError(f"mark image {id} as used", error) from None

    def last_use(self, id: str) -> float:
        """Return the time of an image's last use or import, in seconds since the epoch.

        Returns 0 if the image was removed.  Raises ImageError if the database cannot be read.
        """
        from ociruntime.images.store.database import explained

        with explained():
            query = "SELECT used FROM images WHERE id = ?"
            row = self.database.execute(query, (id,)).fetchone()
        return max(row[0], self._marked(id)) if row else 0

    def _marked(self, id: str) -> float:
        """Return the time of an image's last ``mark_used``; 0 if its manifest is missing."""
        try:
            return os.stat(self.blobs.path_of(id)).st_mtime
        except (OSError, ImageError):
            return 0

    def remove(self, ids: Iterable[str]) -> int:
        """Remove images, and blobs that no other image uses; return the number of bytes freed.

        Updates the database first: a crash may leave stale blobs, which ``sweep`` removes, but
        never an image without its blobs.  Raises ImageError if the database cannot be written,
        HostError if a blob cannot be removed.
        """
        from ociruntime.images.store.database import writing

        execute = self.database.execute
        with writing(self.database):
            for id in ids:
                execute("DELETE FROM images WHERE id = ?", (id,))
            gone = execute("SELECT digest FROM unused_blobs").fetchall()
            execute("DELETE FROM blobs WHERE digest IN unused_blobs")
        return self._unlink(digest for (digest,) in gone)[1]

    def sweep(self) -> tuple[int, int]:
        """Remove unused blobs and stale imports; return (number of files, their total bytes).

        Raises ImageError if the database cannot be read, HostError if a file cannot be removed.
        """
        from ociruntime.images.store.import_image import remove_stale

        stale = remove_stale(self.tmp)
        unknown = self._unlink(self.blobs.digests())
        return stale[0] + unknown[0], stale[1] + unknown[1]

    def _unlink(self, digests: Iterable[str]) -> tuple[int, int]:
        """Remove the blobs in ``digests`` that no image uses; return (number, total bytes).

        Holds the database's write lock, so that no import can start to use one of these blobs.
        """
        from ociruntime.images.store.database import writing

        count = total = 0
        query = "SELECT 1 FROM blobs WHERE digest = ?"
        with writing(self.database):
            for digest in list(digests):
                path = self.blobs.path_of(digest)
                if self.database.execute(query, (digest,)).fetchone():
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


def _chosen(records: Iterable[Record], reference: str) -> Record:
    """Return the record of the image that ``reference`` names by full name, id or id prefix.

    Raises ImageError if no record matches, or if a prefix matches several records.
    """
    digits = reference.removeprefix("sha256:")
    prefix = f"sha256:{digits}" if is_id_digits(digits) else ""
    matches = []
    for record in records:
        if reference in record.names:
            return replace(record, name=reference)
        if prefix and record.id.startswith(prefix):
            matches.append(record)
    if len(matches) > 1:
        ids = ", ".join(record.id[:19] for record in matches)
        raise ImageError(f'image ID "{reference}" is ambiguous', f"use more digits: {ids}")
    if not matches:
        raise ImageError(f'image "{reference}" is not in the store')
    return matches[0]
