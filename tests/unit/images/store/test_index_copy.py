"""Images found without SQLite: as long as the copy of the index says what that says."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest

from ociruntime.base.errors import ImageError
from ociruntime.images.model.image import Image
from ociruntime.images.store import database
from ociruntime.images.store.index_copy import identity
from ociruntime.images.store.store import Store
from tests.support import images


def put(store: Store, name: str) -> Image:
    built = images.BuiltImage([images.pack({"file": name})])
    return store.import_image(
        built.manifest, lambda blob: io.BytesIO(built.blobs[blob.digest]), name
    )


def test_an_image_is_found_without_the_index_while_that_does_not_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(str(tmp_path)) as store:
        image = put(store, "one")
        other = put(store, "two")
    os.utime(tmp_path / "cas/index.db", (5, 5))
    with Store(str(tmp_path)) as store:
        assert store.find("one").id == image.id
    with monkeypatch.context() as patched, Store(str(tmp_path)) as store:
        patched.setattr(database, "open_database", lambda _: pytest.fail("it was opened"))
        assert store.find("one").id == store.find(image.id).id == image.id
        assert store.find(other.id[7:20]).names == ("two",)
        assert store.origins(image.id) == {"one": ""}
        with pytest.raises(ImageError, match="is not in the store"):
            store.find("three")
    with Store(str(tmp_path)) as store:
        store.set_name(other.id, "one")
        with Store(str(tmp_path)) as second:  # the change is in SQLite's log
            assert second.find("one").id == other.id
    with Store(str(tmp_path)) as store:
        assert store.find("one").id == other.id


def test_a_copy_of_the_index_that_has_just_changed_is_not_kept(tmp_path: Path) -> None:
    with Store(str(tmp_path)) as store:
        put(store, "one")
    with Store(str(tmp_path)) as store:
        store.find("one")
    assert not (tmp_path / "cas/index.json").exists()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"index": 1, "images": 2}', "same"])
def test_a_damaged_copy_of_the_index_is_made_anew(tmp_path: Path, text: str) -> None:
    with Store(str(tmp_path)) as store:
        image = put(store, "one")
    os.utime(tmp_path / "cas/index.db", (5, 5))
    found = identity(str(tmp_path / "cas/index.db"))
    copy = tmp_path / "cas/index.json"
    copy.write_text(text if text != "same" else json.dumps({"index": found, "images": [[1], 2]}))
    with Store(str(tmp_path)) as store:
        assert store.find("one").id == image.id
    assert json.loads(copy.read_text())["index"] == found
