"""Names of images in the store: any number an image, each means one image."""

from __future__ import annotations

from ociruntime.errors import ImageError
from ociruntime.image.digest import is_digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

_LONGEST = 4200  # characters: one may be the path of a file


def check_name(name: str) -> str:
    """``name`` itself if an image can have it.  Raises ImageError."""
    printable = name.isprintable() and name == name.strip()
    if not 0 < len(name) <= _LONGEST or not printable or name[0] == "-" or is_digest(name):
        shown = name[:80].encode("unicode_escape").decode()
        raise ImageError(f'no name for an image: "{shown}"', "not empty, not a digest, one line")
    return name


def put_name(database: sqlite3.Connection, id: str, name: str, signer: str = "") -> None:
    """Gives the name to the image, away from any other; inside a transaction.

    ``signer`` has signed it (permission.py); without one what is known of that stays.
    Raises ImageError.
    """
    database.execute(
        "INSERT INTO names VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET image = excluded.image",
        (check_name(name), id),
    )
    database.execute(
        "INSERT INTO origins VALUES (?, ?, ?) ON CONFLICT (image, name) DO UPDATE SET signer ="
        " CASE excluded.signer WHEN '' THEN signer ELSE excluded.signer END",
        (id, name, signer),
    )
