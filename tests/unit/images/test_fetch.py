"""Names with a digest: the stored image of that name must have the digest."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ociruntime.base.errors import HostError, ImageError
from ociruntime.images.fetch import fetch, look_up
from ociruntime.images.model import image_limits
from ociruntime.images.model.image import Image
from ociruntime.images.model.settings_files import Settings
from ociruntime.images.registry import resumable_download
from ociruntime.images.store.store import Store
from tests.support import images
from tests.support.registry import Registry


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(str(tmp_path / "data")) as one:
        yield one


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as one:
        yield one


def get(store: Store, name: str, policy: str) -> Image:
    return fetch(store, name, policy, frozenset(), settings=Settings())


def put(store: Store, text: str) -> Image:
    built = images.build([images.pack({"a": text})])
    return images.import_image(
        store, built.manifest, lambda blob: io.BytesIO(built.blobs[blob.digest])
    )


def test_a_pinned_name_that_another_image_has(store: Store) -> None:
    image = put(store, "b")
    digests = [f"sha256:{'0' * 64}", image.config_digest, image.layers[0].digest]
    for digest in digests:
        name = f"docker.io/library/x:1@{digest}"
        store.set_name(image.id, name)
        with pytest.raises(ImageError, match=f'image "{name}" .*digest'):
            get(store, name, "never")
    right = f"docker.io/library/x:1@{image.id}"
    store.set_name(image.id, right)
    assert get(store, right, "never").id == image.id


@pytest.mark.parametrize("policy", ["new", "update"])
def test_a_pinned_name_is_taken_from_another_image(
    store: Store, registry: Registry, policy: str
) -> None:
    wanted = registry.push("web", "1", images.build([images.pack({"a": "wanted"})]))
    name = f"{registry.host}/web:1@{wanted}"
    store.set_name(put(store, "other").id, name)
    assert get(store, name, policy).id == wanted
    assert get(store, name, "never").id == wanted


def test_an_index_is_pinned(store: Store, registry: Registry) -> None:
    """Also if the image was later fetched through another index."""
    image = images.build([images.pack({"a": "b"})])
    foreign = images.BuiltImage([images.pack({"x": "y"})], architecture="s390x")
    indexes = [registry.push_index("web", "1", every) for every in ([image], [foreign, image])]
    names = [f"{registry.host}/web@{index}" for index in indexes]
    for name in names:
        assert get(store, name, "new").id == image.id
    registry.forget()
    for name in names:
        for policy in ("new", "update", "never"):
            assert get(store, name, policy).id == image.id
    assert registry.log == []


def test_a_name_goes_before_the_beginning_of_an_id(store: Store) -> None:
    """An image whose id begins with a word does not replace a name."""
    made, named = put(store, "made"), put(store, "named")
    digits = made.id.removeprefix("sha256:")
    length = next(at for at in range(2, 65) if any(letter.isdecimal() for letter in digits[:at]))
    word = digits[:length]
    assert get(store, word, "never").id == made.id
    assert look_up(store, word).id == made.id
    store.set_name(named.id, f"docker.io/library/{word}:latest")
    assert get(store, word, "never").id == named.id
    assert look_up(store, word).id == named.id
    assert get(store, f"sha256:{word}", "never").id == made.id


def test_a_disk_that_becomes_full_keeps_no_downloads(
    store: Store, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.push("web", "1", images.build([images.pack({"a": "x"}), images.pack({"b": "y"})]))
    write = resumable_download._write
    written: list[int] = []

    def full(file: int, data: bytes, at: int) -> None:
        if len(written) == 2:
            os.pwrite(file, data[:1], at)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written.append(at)
        write(file, data, at)

    monkeypatch.setattr(resumable_download, "_write", full)
    with pytest.raises(HostError, match="no space left on device"):
        get(store, f"{registry.host}/web:1", "new")
    assert len(written) == 2
    assert os.listdir(f"{store.path}/partial") == []


def test_an_image_that_does_not_fit_is_not_begun(
    store: Store, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = images.build([images.pack({name: os.urandom(100_000)}) for name in "ab"])
    registry.push("web", "1", built)
    sizes = [layer["size"] for layer in built.manifest_document["layers"]]
    monkeypatch.setattr(image_limits, "_room", lambda *_: (max(sizes) + 20_000, 1000))
    with pytest.raises(ImageError, match="disk has only"):
        get(store, f"{registry.host}/web:1", "new")
    assert registry.asked("blobs") == []
