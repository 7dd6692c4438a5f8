"""The fixtures of the tests of images."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ociruntime.base.errors import RuntimeFailure
from ociruntime.images.fetch import fetch
from ociruntime.images.model.settings_files import Settings
from ociruntime.images.store.store import Store
from tests.support.image_store import ImageStore
from tests.support.ocipod import Ocipod
from tests.support.registry import Registry


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if {"ocipod", "image_store"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.root)
            if os.geteuid() != 0:
                item.add_marker(pytest.mark.skip(reason="needs root"))


@pytest.fixture
def ocipod(work: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ocipod]:
    """``ocipod`` with separate directories, ``data`` and ``config``, in ``work``."""
    monkeypatch.setenv("HOME", str(work))
    for name in ("REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "DOCKER_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    (work / "config").mkdir()
    options = [f"--local-config={work}/config", f"--system-config={work}/system"]
    one = Ocipod(work / "data", None, "--insecure-options=none", *options)
    yield one
    one.end_started()


class Refused:
    """Asserts that an image is refused with these words, in this process: ten times as fast."""

    def __init__(self, work: Path) -> None:
        self.directory = str(work / "data")
        self.settings = Settings(str(work / "system"), str(work / "config"))

    def __call__(self, name: str, *words: str, signature: bytes | None = None) -> None:
        with Store(self.directory) as store, pytest.raises(RuntimeFailure) as raised:
            fetch(store, name, "update", frozenset(), settings=self.settings, signature=signature)
        for word in words:
            assert word in str(raised.value)


@pytest.fixture
def refused(ocipod: Ocipod, work: Path) -> Refused:
    return Refused(work)


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as one:
        yield one


@pytest.fixture
def image_store(work: Path) -> Iterator[ImageStore]:
    one = ImageStore(work)
    yield one
    one.ocipod.end_started()
