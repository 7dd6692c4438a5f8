"""Names of images in the store: an image has any number, a name refers to one image."""

from __future__ import annotations

import sqlite3

from ociruntime.base.errors import ImageError
from ociruntime.images.model.digest import is_digest

_LONGEST = 4200  # characters: a name may be the path of a file


def check_name(name: str) -> str:
    """Return ``name`` if it is valid for an image.  Raises ImageError."""
    printable = name.isprintable() and name == name.strip()
    if not 0 < len(name) <= _LONGEST or not printable or name[0] == "-" or is_digest(name):
        shown = name[:80].encode("unicode_escape").decode()
        raise ImageError(f'no name for an image: "{shown}"', "not empty, not a digest, one line")
    return name


def put_name(database: sqlite3.Connection, id: str, name: str, signer: str = "") -> None:
    """Give the name to the image, taking it from any other; call it in a transaction.

    ``signer`` is recorded for the name; "" keeps what is recorded.  Raises ImageError.
    """
    point_name(database, id, name)
    database.execute(
        "INSERT INTO origins VALUES (?, ?, ?) ON CONFLICT (image, name) DO UPDATE SET signer ="
        " CASE excluded.signer WHEN '' THEN signer ELSE excluded.signer END",
        (id, name, signer),
    )


def point_name(database: sqlite3.Connection, id: str, name: str) -> None:
    """Make ``name`` refer to the image; call it in a transaction.

    Unlike ``put_name`` it does not record that the image came under that name, which is what the
    policy considers.  Raises ImageError.
    """
    database.execute(
        "INSERT INTO names VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET image = excluded.image",
        (check_name(name), id),
    )


def claim_name(database: sqlite3.Connection, id: str, name: str, *, replace: bool) -> str:
    """Point ``name`` at the image if it is free, or with ``replace``; call it in a transaction.

    Returns the id of another image that keeps the name, or "".  Raises ImageError.
    """
    query = "SELECT image FROM names WHERE name = ?"
    row = database.execute(query, (check_name(name),)).fetchone()
    if row and row[0] != id and not replace:
        return str(row[0])
    point_name(database, id, name)
    return ""
