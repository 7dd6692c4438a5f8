"""Names of images in the store: any number an image, each means one image."""

from __future__ import annotations

import re
import sqlite3

from ociruntime.errors import ImageError
from ociruntime.image.digest import is_digest

_NAME = re.compile(r"[A-Za-z0-9][\w./:@+-]{0,511}", re.ASCII)


def check_name(name: str) -> str:
    """``name`` itself if an image can have it.  Raises ImageError."""
    if not _NAME.fullmatch(name) or is_digest(name):
        hint = "letters, digits and . / : @ + - _, a letter or digit first"
        raise ImageError(f'no name for an image: "{name}"', hint)
    return name


def put_name(database: sqlite3.Connection, id: str, name: str) -> None:
    """Gives the name to the image, away from any other; inside a transaction.

    Raises ImageError.
    """
    database.execute(
        "INSERT INTO names VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET image = excluded.image",
        (check_name(name), id),
    )
