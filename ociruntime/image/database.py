"""The index of the image store: an SQLite file beside the blobs.

Its write lock is what orders imports and removals: whoever makes or removes files below
``blobs`` does it inside ``writing``.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ociruntime.errors import HostError, ImageError

PATIENCE = 60.0  # seconds that one waits for another's transaction

# One script a version: what brings an index from the version before to it.
MIGRATIONS = (
    """
    CREATE TABLE images(
        id TEXT PRIMARY KEY,
        imported REAL NOT NULL,
        used REAL NOT NULL,
        index_digest TEXT NOT NULL
    );
    CREATE TABLE names(
        name TEXT PRIMARY KEY,
        image TEXT NOT NULL REFERENCES images(id) ON DELETE CASCADE
    );
    CREATE INDEX names_of_image ON names(image);
    CREATE TABLE blobs(digest TEXT PRIMARY KEY, size INTEGER NOT NULL);
    CREATE TABLE image_blobs(
        image TEXT NOT NULL REFERENCES images(id) ON DELETE CASCADE,
        blob TEXT NOT NULL REFERENCES blobs(digest),
        PRIMARY KEY (image, blob)
    );
    CREATE INDEX images_of_blob ON image_blobs(blob);
    CREATE VIEW records AS
        SELECT id, imported, used, index_digest,
            (SELECT group_concat(name, char(10)) FROM names WHERE image = id) AS names,
            (SELECT sum(size) FROM image_blobs JOIN blobs ON blob = digest WHERE image = id) AS size
        FROM images;
    CREATE VIEW unused_blobs AS
        SELECT digest FROM blobs WHERE digest NOT IN (SELECT blob FROM image_blobs);
    """,
)


def open_database(path: str) -> sqlite3.Connection:
    """The index at ``path``, made or brought up to date as needed.  Raises ImageError."""
    try:
        connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
    except sqlite3.Error as error:
        raise ImageError(f'cannot open the image index "{path}": {error}') from None
    with explained(path):
        _use_log(connection)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        if _version(connection) != len(MIGRATIONS):
            _migrate(connection, path)
    return connection


@contextmanager
def writing(connection: sqlite3.Connection) -> Iterator[None]:
    """One transaction that alone may write, from here on; taken back on an exception.

    Raises ImageError when another holds it for longer than PATIENCE.
    """
    with explained():
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")


@contextmanager
def explained(path: str = "the image index") -> Iterator[None]:
    """Raises ImageError for an error of SQLite."""
    try:
        yield
    except sqlite3.Error as error:
        raise ImageError(f"{path}: {error}") from None


def _use_log(connection: sqlite3.Connection) -> None:
    """Readers and a writer beside one another, from now on, for everybody.

    Of several who open a new index at once SQLite refuses all but one here, without any patience.
    """
    limit = time.monotonic() + PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > limit:
                raise
            time.sleep(0.01)
        else:
            return


def _version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _migrate(connection: sqlite3.Connection, path: str) -> None:
    with writing(connection):
        version = _version(connection)  # another may have done it by now
        if version > len(MIGRATIONS):
            message = f'"{path}" has version {version}, and {len(MIGRATIONS)} is the newest known'
            raise ImageError(message, "a newer ocipod has made it")
        if 0 < version < len(MIGRATIONS):
            _back_up(path, version)
        for script in MIGRATIONS[version:]:
            for statement in script.split(";"):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")


def _back_up(path: str, version: int) -> None:
    """Copies the index as it was before; readers are welcome during a transaction in a WAL."""
    copy = f"{path}.version-{version}"
    try:
        if os.path.exists(copy):
            os.unlink(copy)
    except OSError as error:
        raise HostError(f'remove "{copy}"', error) from None
    source = sqlite3.connect(path)
    target = sqlite3.connect(copy)
    try:
        source.backup(target)
    finally:
        target.close()
        source.close()
