"""The image store: lookups, refusals, and recovery after a crash."""

from __future__ import annotations

import io
import os
import time
from pathlib import Path

import pytest

from ociruntime.base.errors import HostError, ImageError
from ociruntime.images.model.image import Descriptor, Image
from ociruntime.images.store.import_image import Incoming
from ociruntime.images.store.store import Store
from tests.support import file_size_limit, images
from tests.support.images import BuiltImage


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "data"))


LARGE = b"y" * 5000


def put(store: Store, image: BuiltImage, name: str = "") -> Image:
    def open_blob(blob: Descriptor) -> io.BytesIO:
        return io.BytesIO(image.blobs[blob.digest])

    return images.import_image(store, image.manifest, open_blob, name)


def small(text: str, *more: bytes) -> BuiltImage:
    return BuiltImage([images.pack({"file": text}), *more])


def files(store: Store) -> set[str]:
    return {f"sha256:{path.name}" for path in Path(store.blobs.path, "sha256").iterdir()}


def test_import_and_find(store: Store) -> None:
    built = small("one")
    image = put(store, built, "one:latest")
    assert image.id == built.id
    assert image.name == "one:latest"
    assert image.config == built.config_document
    assert image.manifest == built.manifest_document
    assert image.chain_id == images.digest(built.layers[0])
    assert image.size == sum(map(len, built.blobs.values()))
    assert image.platform == f"linux/{images.MACHINE}"
    assert image.layers[0].compression == "gzip"
    assert image.app["Cmd"] == ["sh"]
    for reference in ("one:latest", image.id, image.id[:14], image.id[7:14]):
        assert store.find(reference).id == image.id
    assert os.listdir(store.tmp) == []


def test_an_image_that_is_gone_meanwhile(store: Store) -> None:
    image = put(store, small("one"))
    os.unlink(store.blobs.path_of(image.id))
    with pytest.raises(HostError, match=f"mark image {image.id} as used: no such file"):
        store.mark_used(image.id)


@pytest.mark.parametrize("reference", ["nothing", "sha256:123456", "", "'; --", "0" * 64])
def test_what_is_not_there(store: Store, reference: str) -> None:
    put(store, small("one"), "one")
    with pytest.raises(ImageError, match="in the store"):
        store.find(reference)


def test_beginning_of_several_ids(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ociruntime.images.model.reference.FEWEST_DIGITS", 1)
    ids = [put(store, small(str(number))).id for number in range(17)]
    first = [id[7] for id in ids]
    digit = next(one for one in first if first.count(one) > 1)
    with pytest.raises(ImageError, match="is ambiguous"):
        store.find(digit)


def test_a_name_moves_to_the_newer_image(store: Store) -> None:
    old, new = put(store, small("old"), "box"), put(store, small("new"), "box")
    assert store.find("box").id == new.id
    assert store.find(old.id).names == ()
    store.set_name(new.id, "other")
    assert store.find(new.id).names == ("box", "other")
    assert store.find("other").name == "other"


@pytest.mark.parametrize("name", [" a", "-x", "sha256:" + "0" * 64, "a\nb", "x" * 5000])
def test_bad_names(store: Store, name: str) -> None:
    with pytest.raises(ImageError, match="invalid image name"):
        put(store, small("one"), name)
    assert store.records() == []
    assert store.sweep()[0] > 0
    assert files(store) == set()


def test_finding_counts_as_use(store: Store) -> None:
    image = put(store, small("one"), "one")
    store.database.execute("UPDATE images SET used = 5")
    os.utime(store.blobs.path_of(image.id), (5, 5))
    assert store.find("one", use=False).used == 5
    assert store.find("one", use=False).used == 5
    store.find("one")
    assert store.find("one").used == pytest.approx(time.time(), abs=60)
    assert store.find("one").imported == image.imported


def test_importing_again_changes_nothing_but_use(store: Store) -> None:
    built = small("one")
    first = put(store, built, "a")
    again = put(store, built, "b")
    assert again.imported == first.imported
    assert again.names == ("a", "b")
    assert len(store.images()) == 1


def test_remove_keeps_what_others_need(store: Store) -> None:
    shared = images.pack({"shared": "x"})
    first = BuiltImage([shared, images.pack({"a": "a"})])
    second = BuiltImage([shared, images.pack({"b": "b"})])
    put(store, first, "first")
    put(store, second, "second")
    freed = store.remove([first.id])
    assert freed == sum(len(first.blobs[key]) for key in first.blobs.keys() - second.blobs.keys())
    assert files(store) == set(second.blobs)
    assert [image.id for image in store.images()] == [second.id]
    store.remove([second.id])
    assert files(store) == set()
    assert store.sweep() == (0, 0)


def test_an_import_outlives_the_removal_of_what_it_found(store: Store) -> None:
    built = small("one")
    put(store, built, "one")
    with Incoming(store) as incoming:
        assert all(incoming.has(digest) for digest in built.blobs)
        store.remove([built.id])
        assert files(store) == set()
        incoming.commit(built.id, "again")
    assert store.find("again").id == built.id
    assert files(store) == set(built.blobs)


def test_sweep_leaves_imports_under_way(store: Store) -> None:
    built = small("one")
    with Incoming(store) as incoming:
        for digest, blob in built.blobs.items():
            incoming.add_bytes(blob, digest)
        assert store.sweep() == (0, 0)
        incoming.commit(built.id)
    assert store.find(built.id).id == built.id


@pytest.mark.parametrize("at", ["add", "take", "rows"])
def test_what_a_killed_import_leaves_is_swept(store: Store, at: str) -> None:
    built = small("one")
    child = os.fork()
    if not child:
        try:
            killed_import(Store(str(Path(store.path).parent)), built, at)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 9
    assert store.records() == []
    assert store.sweep()[0] > 0
    assert files(store) == set()
    assert os.listdir(store.tmp) == []
    assert put(store, built).id == built.id


def killed_import(store: Store, built: BuiltImage, at: str) -> None:
    with Incoming(store) as incoming:
        for digest, blob in built.blobs.items():
            incoming.add_bytes(blob, digest)
        if at == "add":
            os.kill(os.getpid(), 9)
        if at == "take":
            store.blobs.sync = lambda: os.kill(os.getpid(), 9)  # type: ignore[method-assign]
        store.database.set_trace_callback(
            lambda text: os.kill(os.getpid(), 9) if text.startswith("COMMIT") else None
        )
        incoming.commit(built.id, "x")


def test_damage_on_the_way_is_refused(store: Store) -> None:
    built = small("one")
    layer = built.manifest_document["layers"][0]
    content = built.blobs[layer["digest"]]
    wrong = bytes([content[0] ^ 1]) + content[1:]
    with Incoming(store) as incoming:
        for data, message in (
            (wrong, "digest mismatch"),
            (content[:-1], f"ends after {len(content) - 1} of {len(content)} bytes"),
            (content + b"x", f"expected {len(content)} bytes"),
        ):
            with pytest.raises(ImageError, match=message):
                incoming.add_blob(io.BytesIO(data), layer["digest"], layer["size"])
        assert os.listdir(incoming.path) == []
        incoming.add_bytes(built.manifest)
        incoming.add_bytes(built.config)
        with pytest.raises(ImageError, match=r"layer 1 sha256:.* is missing"):
            incoming.commit(built.id)
    assert store.records() == []
    assert files(store) == set()


def test_progress_and_blobs_of_unknown_digest(store: Store) -> None:
    seen: list[tuple[str, int, int]] = []
    with Incoming(store) as incoming:
        digest = incoming.add_blob(
            io.BytesIO(b"x" * 3_000_000), progress=lambda *fact: seen.append(fact), kind="reading"
        )
        assert digest == images.digest(b"x" * 3_000_000)
        assert incoming.has(digest)
    assert seen[-1] == ("reading", 3_000_000, 0)
    assert len(seen) == 3


def test_a_damaged_image_can_still_be_removed(store: Store) -> None:
    built = small("one")
    image = put(store, built, "one")
    put(store, small("two"), "two")
    Path(store.blobs.path_of(image.config_digest)).write_text("{}")
    Path(store.blobs.path_of(image.layers[0].digest)).unlink()
    assert [one.name for one in store.images()] == ["two"]
    with pytest.raises(ImageError, match="digest mismatch"):
        store.find("one")
    assert len(store.records()) == 2
    store.remove([store.record("one").id])
    assert [one.name for one in store.records()] == ["two"]


def test_the_index_of_an_image_stays_with_it(store: Store) -> None:
    built, index = small("one"), b'{"manifests": []}'
    with Incoming(store) as incoming:
        for digest, blob in built.blobs.items():
            incoming.add_bytes(blob, digest)
        incoming.add_bytes(index)
        assert incoming.commit(built.id, "x", images.digest(index)).index == images.digest(index)
    assert store.sweep() == (0, 0)
    assert store.blobs.read(store.find("x").index) == index
    assert put(store, built).index == images.digest(index)


def test_two_stores_write_at_once(store: Store) -> None:
    built = [small(str(number)) for number in range(4)]
    children = []
    for image in built:
        child = os.fork()
        if not child:
            status = 1
            try:
                own = Store(str(Path(store.path).parent))
                for _ in range(5):
                    put(own, image, "box")
                    own.sweep()
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    assert {image.id for image in store.images()} == {image.id for image in built}
    assert store.sweep() == (0, 0)


def test_several_open_a_new_store_at_once(tmp_path: Path) -> None:
    for number in range(8):
        waits, starts = os.pipe()
        children = []
        for _ in range(5):
            child = os.fork()
            if not child:
                status = 1
                try:
                    os.close(starts)
                    os.read(waits, 1)
                    Store(str(tmp_path / str(number)))
                    status = 0
                finally:
                    os._exit(status)
            children.append(child)
        os.close(starts)
        os.close(waits)
        assert [os.waitpid(child, 0)[1] for child in children] == [0] * 5


def test_a_sweep_before_the_import_has_its_lock(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def mkdir(path: str, mode: int) -> None:
        os_mkdir(path, mode)
        made.append(path)
        if len(made) == 1:
            assert store.sweep()[0] == 1

    os_mkdir = os.mkdir
    monkeypatch.setattr(os, "mkdir", mkdir)
    built = small("one")
    assert put(store, built).id == built.id
    assert len(made) == 2


def test_who_has_signed_is_kept(store: Store) -> None:
    built = small("one")
    image = put(store, built, "box")
    assert store.origins(image.id) == {"box": ""}
    for signer, known in (("a", "a"), ("", "a"), ("b", "b")):
        with Incoming(store) as incoming:
            incoming.commit(image.id, "box", signer=signer)
        assert store.origins(image.id) == {"box": known}
    put(store, small("two"), "box")
    assert store.origins(image.id) == {"box": "b"}, "it has come by that name"
    store.remove([image.id])
    assert store.origins(image.id) == {}


# --- where the store cannot be, or cannot be written to ---


def test_a_store_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "cas").touch()
    with pytest.raises(HostError, match=r'use the image store ".*/cas": not a directory'):
        Store(str(tmp_path))


def test_a_blob_that_is_no_file(store: Store) -> None:
    digest = images.digest(b"x")
    Path(store.blobs.path_of(digest)).mkdir()
    with Incoming(store) as incoming, pytest.raises(HostError, match=f"link blob {digest} into "):
        incoming.has(digest)
    with pytest.raises(
        HostError, match=f'remove blob .*/{digest.partition(":")[2]}": is a directory'
    ):
        store.blobs.drop(digest)


def test_a_file_system_without_room(store: Store) -> None:
    with Incoming(store) as incoming, file_size_limit.limited(4096):
        with pytest.raises(HostError, match=r"write blob /.*: file too large"):
            incoming.add_blob(io.BytesIO(LARGE))
        with pytest.raises(HostError, match=f"write blob {images.digest(LARGE)}: file too large"):
            incoming.add_blob(io.BytesIO(LARGE), images.digest(LARGE))
        assert os.listdir(incoming.path) == []


def test_a_blob_of_another_size(store: Store) -> None:
    """The store has it from another image, whose manifest knew better."""
    built = small("one")
    put(store, built)
    layer = built.manifest_document["layers"][0]
    layer["size"] += 1
    with pytest.raises(ImageError, match=f"layer 1 .* got {layer['size'] - 1}"):
        put(store, built)


def test_an_image_that_is_gone_cannot_be_marked(store: Store) -> None:
    image = put(store, small("one"))
    store.remove([image.id])
    with pytest.raises(HostError, match=f"mark image {image.id} as used: no such file"):
        store.mark_used(image.id)
