"""The SQLite database of the image store: images, their names and their blobs.

Its write lock serialises imports and removals: files below ``blobs`` are created and removed only
in a transaction (``writing``).
"""

from __future__ import annotations

import os
import sqlite3
import time
from types import TracebackType

from ociruntime.base.errors import HostError, ImageError
from ociruntime.images.model.digest import is_digest

TIMEOUT = 60.0  # seconds to wait for another process's transaction

# Migration scripts; each script upgrades the schema by one version.
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
    # The names under which an image was imported, with the signer verified then, or "".
    """
    CREATE TABLE origins(
        image TEXT NOT NULL REFERENCES images(id) ON DELETE CASCADE,
        name TEXT NOT NULL,
        signer TEXT NOT NULL,
        PRIMARY KEY (image, name)
    );
    INSERT INTO origins SELECT image, name, '' FROM names;
    """,
)


def open_database(path: str) -> sqlite3.Connection:
    """Open the store's database at ``path``; create or migrate it if necessary.

    Raises ImageError if SQLite cannot open the file, or if a newer version of ociruntime has
    created it.
    """
    try:
        connection = sqlite3.connect(path, timeout=TIMEOUT, isolation_level=None)
    except sqlite3.Error as error:
        raise ImageError(f'open the image database "{path}": {error}') from None
    with explained(f'open the image database "{path}"'):
        _use_write_ahead_log(connection)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        if _version(connection) != len(MIGRATIONS):
            _migrate(connection, path)
    return connection


class explained:  # noqa: N801 - as contextlib has them
    """A context manager that converts SQLite's errors to ImageErrors.

    The message is ``ACTION: ERROR``: ``action`` says what was attempted, ERROR is SQLite's message.
    """

    __slots__ = ("action",)

    def __init__(self, action: str = "access the image database") -> None:
        self.action = action

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if isinstance(error, sqlite3.Error):
            raise ImageError(f"{self.action}: {error}") from None


class writing(explained):  # noqa: N801 - as contextlib has them
    """A context manager for a write transaction, which an exception rolls back.

    Raises ImageError if another process keeps the write lock for longer than TIMEOUT.
    """

    __slots__ = ("connection",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__()
        self.connection = connection

    def __enter__(self) -> None:
        with explained():
            self.connection.execute("BEGIN IMMEDIATE")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        with explained():
            try:
                if error is None:
                    self.connection.execute("COMMIT")
            finally:
                if self.connection.in_transaction:  # if the disk is full, SQLite rolls back itself
                    self.connection.execute("ROLLBACK")
        super().__exit__(kind, error, at)


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Switch the database to WAL mode, in which readers and a writer do not block each other.

    If several processes open a new database at once, SQLite lets only one of them switch, and
    ignores the busy timeout in the other processes.  Therefore this function retries.
    """
    deadline = time.monotonic() + TIMEOUT
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _migrate(connection: sqlite3.Connection, path: str) -> None:
    with writing(connection):
        version = _version(connection)  # again under the lock: another process may have migrated
        if version > len(MIGRATIONS):
            message = f"unsupported schema version {version}, newer than {len(MIGRATIONS)}"
            hint = "a newer version of ocipod created it: upgrade ocipod"
            raise ImageError(f'open the image database "{path}": {message}', hint)
        if 0 < version < len(MIGRATIONS):
            _back_up(path, version)
        for script in MIGRATIONS[version:]:
            for statement in script.split(";"):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")


def _back_up(path: str, version: int) -> None:
    """Copy the store's database to PATH.version-N before its schema, version N, is migrated.

    In WAL mode, this works even during a transaction.  Raises HostError if an old copy cannot be
    removed.
    """
    copy = f"{path}.version-{version}"
    try:
        if os.path.exists(copy):
            os.unlink(copy)
    except OSError as error:
        raise HostError(f'remove the old backup "{copy}" of the image database', error) from None
    source = sqlite3.connect(path)
    target = sqlite3.connect(copy)
    try:
        source.backup(target)
    finally:
        target.close()
        source.close()


_LONGEST = 4200  # characters: names of local images contain a path


def check_name(name: str) -> str:
    """Return ``name`` if it is a valid image name for the store.  Raises ImageError otherwise."""
    printable = name.isprintable() and name == name.strip()
    if not 0 < len(name) <= _LONGEST or not printable or name[0] == "-" or is_digest(name):
        shown = name[:80].encode("unicode_escape").decode()
        hint = f"use 1 to {_LONGEST} printable characters, but no digest and no leading -"
        raise ImageError(f'invalid image name "{shown}"', hint)
    return name


def put_name(database: sqlite3.Connection, id: str, name: str, signer: str = "") -> None:
    """Make ``name`` refer to the image ``id``, and record that it was imported under that name.

    The image that had the name before loses it.  ``signer`` is recorded with the name; "" keeps the
    signer recorded earlier.  The caller must have begun a transaction.  Raises ImageError for an
    invalid name.
    """
    point_name(database, id, name)
    database.execute(
        "INSERT INTO origins VALUES (?, ?, ?) ON CONFLICT (image, name) DO UPDATE SET signer ="
        " CASE excluded.signer WHEN '' THEN signer ELSE excluded.signer END",
        (id, name, signer),
    )


def point_name(database: sqlite3.Connection, id: str, name: str) -> None:
    """Make ``name`` refer to the image ``id``; the image that had the name before loses it.

    Unlike ``put_name``, does not record the name as one under which the image was imported: the
    signature policy applies to those names.  The caller must have begun a transaction.  Raises
    ImageError for an invalid name.
    """
    database.execute(
        "INSERT INTO names VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET image = excluded.image",
        (check_name(name), id),
    )


def claim_name(database: sqlite3.Connection, id: str, name: str, *, replace: bool) -> str:
    """Make ``name`` refer to the image ``id``, unless another image has the name.

    With ``replace``, the other image loses the name.  Returns the id of the other image if it keeps
    the name, otherwise "".  Raises ImageError for an invalid name.
    """
    query = "SELECT image FROM names WHERE name = ?"
    row = database.execute(query, (check_name(name),)).fetchone()
    if row and row[0] != id and not replace:
        return str(row[0])
    point_name(database, id, name)
    return ""
