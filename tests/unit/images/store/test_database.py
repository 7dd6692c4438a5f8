"""The index of the store as a file: of other versions, damaged, or where it cannot exist."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from ociruntime.base.errors import ImageError
from ociruntime.images.store import database
from ociruntime.images.store.store import Store


def test_migration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "index.db")
    first = database.open_database(path)
    first.execute("INSERT INTO images VALUES ('a', 1, 2, '')")
    first.close()
    second = ("ALTER TABLE images ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0",)
    with monkeypatch.context() as context:
        context.setattr(database, "MIGRATIONS", database.MIGRATIONS + second)
        migrated = database.open_database(path)
        assert migrated.execute("SELECT id, pinned FROM images").fetchall() == [("a", 0)]
        migrated.close()
    newest = len(database.MIGRATIONS)
    backup = sqlite3.connect(f"{path}.version-{newest}")
    assert backup.execute("SELECT * FROM images").fetchall() == [("a", 1.0, 2.0, "")]
    backup.close()
    with pytest.raises(
        ImageError, match=f"unsupported schema version {newest + 1}, newer than {newest}"
    ):
        database.open_database(path)


def test_images_of_the_first_version_keep_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It did not record their signers."""
    with monkeypatch.context() as context:
        context.setattr(database, "MIGRATIONS", database.MIGRATIONS[:1])
        (tmp_path / "cas").mkdir()
        first = database.open_database(str(tmp_path / "cas/index.db"))
        first.execute("INSERT INTO images VALUES ('sha256:1', 1, 2, '')")
        first.execute("INSERT INTO names VALUES ('box', 'sha256:1')")
        first.close()
    with Store(str(tmp_path)) as store:
        assert store.record("box").id == "sha256:1"
        assert store.origins("sha256:1") == {"box": ""}


def test_a_damaged_index_is_told(tmp_path: Path) -> None:
    (tmp_path / "cas").mkdir()
    (tmp_path / "cas/index.db").write_bytes(b"no database " * 100)
    with pytest.raises(ImageError, match="not a database"):
        Store(str(tmp_path)).records()


def test_an_index_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "index.db").mkdir()
    with pytest.raises(ImageError, match=r'".*/index\.db": unable'):
        database.open_database(str(tmp_path / "index.db"))
