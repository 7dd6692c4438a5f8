"""Images that the daemon finds in the store without a separate process."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from ociruntime.images.formats import local_image
from ociruntime.images.store.store import Store
from ociruntime.images.tar import archives
from ociruntime.images.unpack.tree_store import TreeStore
from ociruntime.manager.containers.daemon_settings import Settings
from ociruntime.manager.containers.stored_image import StoredImage, find_ready
from tests.support import images

NAME = "docker.io/library/box:latest"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings below a directory whose policy accepts every image."""
    return Settings(
        directory=str(tmp_path / "data"),
        system_config=str(tmp_path / "system"),
        local_config=str(tmp_path / "local"),
    )


def put(settings: Settings, *, unpacked: bool = True) -> str:
    """Store an image that declares a volume; return its id."""
    built = images.build([images.pack({"a": "b"})], config={"Volumes": {"/data": {}}})
    with Store(settings.directory) as store:
        image = images.import_image(
            store, built.manifest, lambda blob: io.BytesIO(built.blobs[blob.digest])
        )
        store.set_name(image.id, NAME)
        if unpacked:
            TreeStore(settings.directory).render(store.find(image.id))
    return image.id


@pytest.mark.parametrize("name", ["box", NAME, "box:latest"])
def test_a_stored_image(settings: Settings, name: str) -> None:
    facts = StoredImage(put(settings), ["/data"])
    assert find_ready(settings, {"image": name}, frozenset()) == facts


def test_ocipod_unpacks_it_first(settings: Settings) -> None:
    put(settings, unpacked=False)
    assert find_ready(settings, {"image": "box"}, frozenset()) is None


@pytest.mark.parametrize("spec", [{"image": "other"}, {"image": "box", "platform": "linux/s390x"}])
def test_ocipod_says_what_is_wrong(settings: Settings, spec: dict[str, str]) -> None:
    put(settings)
    assert find_ready(settings, spec, frozenset()) is None


@pytest.mark.parametrize("kind", ["", "oci-archive:", "tar:"])
def test_the_daemon_opens_no_files_of_others(
    settings: Settings, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An archive may have millions of members, or be on a dead network disk."""
    path = tmp_path / "archive"
    path.touch()
    opened: list[object] = []
    monkeypatch.setattr(archives, "open_file", opened.append)
    monkeypatch.setattr(local_image, "open_file", opened.append)
    spec = {"image": f"{kind}{path}", "pull_policy": "never"}
    assert find_ready(settings, spec, frozenset()) is None
    assert not opened


def test_an_image_that_must_be_signed(settings: Settings, tmp_path: Path) -> None:
    """The policy applies like in ocipod: an unsigned image is not used."""
    put(settings)
    (tmp_path / "local").mkdir()
    policy = {"default": {"signedBy": {"openpgp": True}}}
    (tmp_path / "local/policy.json").write_text(json.dumps(policy))
    assert find_ready(settings, {"image": "box"}, frozenset()) is None
    assert find_ready(settings, {"image": "box"}, frozenset({"image"})) is not None
