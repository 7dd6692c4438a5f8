"""The image store: blobs by digest, and an index of images and their names.

    $D/cas/index.db         names, times and which image has which blob (database.py)
    $D/cas/blobs/sha256/..  manifests, configurations and layers (blobs.py)
    $D/cas/tmp/..           imports in progress (import_image.py)
    $D/cas/tree/..          root filesystems rendered from images (tree_store.py)

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
    """The image store in the data directory ``directory``, created if it does not exist.

    Several processes may use it at once.  The constructor raises HostError.
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
        """The connection to the image index, opened at the first use.  Raises ImageError."""
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
        """Return the stored image with this full name, id or unique prefix of an id.

        ``use`` marks it as used now, which protects it from ``image gc`` for a while.  With
        ``digest`` (of a manifest or index), an image of that name with another digest counts as not
        found. Raises ImageError, HostError.
        """
        image = self.load(self.record(reference))
        if digest and not self._has_digest(image, digest):
            raise ImageError(
                f'image "{reference}" in the store has another digest', "fetch it again"
            )
        if use:
            self.mark_used(image.id)
        return image

    def _has_digest(self, image: Image, digest: str) -> bool:
        """Return whether ``digest`` is that of the image's manifest or of one of its indexes."""
        if digest in (image.id, image.index):
            return True
        parts = {image.config_digest, *(layer.digest for layer in image.layers)}
        return digest not in parts and digest in self.digests(image.id)

    def record(self, reference: str) -> Record:
        """Return an image's record; like ``find``, but reads no blobs.  Raises ImageError."""
        return _chosen(self.records(), reference)

    def records(self) -> list[Record]:
        """Return the records of all images, including damaged ones, oldest import first.

        Raises ImageError.
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
            used = max(used, self._marked(id))  # noqa: PLW2901 - whichever was last
            imports = tuple(origins.get(id, ()))
            records.append(Record(id, name, names, size or 0, imported, used, index, imports))
        return records

    def images(self) -> list[Image]:
        """Return all images except damaged ones, which only ``records`` includes."""
        images = []
        for record in self.records():
            try:
                images.append(self.load(record))
            except ImageError:
                continue
        return images

    def load(self, record: Record) -> Image:
        """Return the image of a record; read and check its manifest and configuration.

        Raises ImageError.
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
        """Return the digests of all blobs of the image.  Raises ImageError."""
        from ociruntime.images.store.database import explained

        query = "SELECT blob FROM image_blobs WHERE image = ? ORDER BY blob"
        with explained():
            return [digest for (digest,) in self.database.execute(query, (id,))]

    def origins(self, id: str) -> dict[str, str]:
        """Return {name: signer verified then, or ""} for the names used to import an image."""
        return next((dict(record.origins) for record in self.records() if record.id == id), {})

    # Modify

    def set_name(self, id: str, name: str) -> None:
        """Make ``name`` refer to the image ``id`` instead of any other.  Raises ImageError."""
        self.claim_name(id, name, replace=True)

    def claim_name(self, id: str, name: str, *, replace: bool) -> str:
        """Make ``name`` refer to the image ``id``; take it from another one only with ``replace``.

        Returns the id of the other image that keeps the name, or "".  The signature policy still
        goes by the names under which the image was imported.  Raises ImageError.
        """
        from ociruntime.images.store.database import claim_name, writing

        with writing(self.database):
            return claim_name(self.database, id, name, replace=replace)

    def remove_name(self, id: str, name: str) -> bool:
        """Remove one of an image's names; return False if it is the only one.

        Raises ImageError.
        """
        from ociruntime.images.store.database import writing

        with writing(self.database):
            query = "SELECT 1 FROM names WHERE image = ? AND name != ?"
            if not self.database.execute(query, (id, name)).fetchone():
                return False
            self.database.execute("DELETE FROM names WHERE image = ? AND name = ?", (id, name))
        return True

    def mark_used(self, id: str) -> None:
        """Mark an image as used now, by the mtime of its manifest's file.  Raises HostError."""
        try:
            os.utime(self.blobs.path_of(id))
        except OSError as error:
            raise HostError(f"mark image {id} as used", error) from None

    def last_use(self, id: str) -> float:
        """Return when an image was last used or imported, in seconds since the epoch; 0 if removed.

        Raises ImageError.
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
        """Remove images, and blobs that no other image needs; return the number of bytes freed.

        The database is updated first: a crash then leaves stale blobs for ``sweep``, never an image
        without its blobs.  Raises ImageError, HostError.
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
        """Remove unused blobs and stale imports; return (number of files, their bytes).

        Raises ImageError, HostError.
        """
        from ociruntime.images.store.import_image import remove_stale

        stale = remove_stale(self.tmp)
        unknown = self._unlink(self.blobs.digests())
        return stale[0] + unknown[0], stale[1] + unknown[1]

    def _unlink(self, digests: Iterable[str]) -> tuple[int, int]:
        """Remove those of the blobs ``digests`` that no image uses; return (number, bytes).

        A transaction prevents an import from adding one of them again in the meantime.
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
    """Return the record with this full name, id or unique prefix of an id.  Raises ImageError."""
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
