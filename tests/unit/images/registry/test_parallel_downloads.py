"""Concurrent downloads: their shared state, and the effect of one failure on the others."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ociruntime.base.errors import ImageError, RegistryError
from ociruntime.images.model.image import Descriptor
from ociruntime.images.model.image_limits import Budget, Limits
from ociruntime.images.registry.http_client import HttpClient
from ociruntime.images.registry.parallel_downloads import AT_ONCE, Downloads
from ociruntime.images.registry.registry import Registry as Client
from ociruntime.images.registry.sources import Sources
from ociruntime.images.store.import_image import Incoming
from ociruntime.images.store.store import Store
from tests.support import images
from tests.support.registry import Registry

BLOBS = {images.digest(data): data for data in (os.urandom(300_000) for _ in range(10))}
WANTED = [
    (Descriptor("", one, len(data)), f"layer {n}") for n, (one, data) in enumerate(BLOBS.items())
]


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as one:
        one.blobs.update({("web", digest): data for digest, data in BLOBS.items()})
        yield one


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(str(tmp_path)) as one:
        yield one


@pytest.fixture
def http() -> Iterator[HttpClient]:
    client = HttpClient(frozenset(), lambda _: None)
    yield client
    client.close()


def downloads(
    store: Store, http: HttpClient, *registries: Registry, seen: list[tuple[str, int]] | None = None
) -> Downloads:
    def progress(kind: str, done: int, total: int) -> None:
        assert done <= total
        if seen is not None:
            seen.append((kind, done))

    sources = Sources([Client(one.host, "web", http) for one in registries])
    return Downloads(f"{store.path}/partial", sources, progress)


def test_all_of_them(store: Store, http: HttpClient, registry: Registry) -> None:
    seen: list[tuple[str, int]] = []
    budget = Budget.at(store.path, Limits())
    several = downloads(store, http, registry, seen=seen)
    with Incoming(store, budget) as incoming:
        several.add_all(incoming, WANTED)
        assert {incoming.read(digest) for digest in BLOBS} == set(BLOBS.values())
    assert budget.bytes == sum(map(len, BLOBS.values()))
    # All are announced first, and the parts of each come in order.
    assert seen[: len(WANTED)] == [(kind, 0) for _, kind in WANTED]
    for _, kind in WANTED:
        parts = [done for label, done in seen if label == kind]
        assert parts == sorted(parts)
    assert len(registry.asked("blobs")) == len(WANTED)
    several.discard()
    assert os.listdir(several.directory) == []


def test_so_many_at_a_time(store: Store, http: HttpClient, registry: Registry) -> None:
    """None can finish before AT_ONCE of them have started."""
    together = threading.Barrier(AT_ONCE)
    open_blob = Client.open_blob

    class Meeting(Client):
        def open_blob(self, digest: str, offset: int = 0) -> Any:  # noqa: ANN401 - a response
            together.wait(30)
            return open_blob(self, digest, offset)

    sources = Sources([Meeting(registry.host, "web", http)])
    several = Downloads(f"{store.path}/partial", sources, lambda *_: None)
    with Incoming(store) as incoming:
        several.add_all(incoming, WANTED[: 2 * AT_ONCE])
    assert together.n_waiting == 0


def test_a_failure_ends_all(store: Store, http: HttpClient, registry: Registry) -> None:
    """One blob is wrong; another one hangs, which must not delay the failure."""
    first, stuck = WANTED[1][0].digest, WANTED[0][0].digest
    registry.blobs["web", first] = b"x" * len(BLOBS[first])
    registry.cut[stuck] = 0.5
    registry.slow.add(stuck)
    several = downloads(store, http, registry)
    with Incoming(store) as incoming, pytest.raises(ImageError, match="digest mismatch"):
        several.add_all(incoming, WANTED)
    registry.released.set()
    assert len(registry.asked("blobs")) < len(WANTED)
    assert os.listdir(store.tmp) == []


def test_what_a_broken_connection_leaves_is_resumed(
    store: Store, http: HttpClient, registry: Registry
) -> None:
    digest = WANTED[2][0].digest
    registry.cut[digest] = 0.5
    registry.broken.add(digest)
    several = downloads(store, http, registry)
    with Incoming(store) as incoming, pytest.raises(RegistryError, match="interrupted after"):
        several.add_all(incoming, WANTED)
    assert several.present(WANTED[2][0]) == len(BLOBS[digest]) // 2
    registry.broken.clear()
    registry.forget()
    with Incoming(store) as incoming:
        downloads(store, http, registry).add_all(incoming, WANTED)
    assert registry.asked(digest)[0].range == f"bytes={len(BLOBS[digest]) // 2}-"


def test_the_limit_is_for_all_together(store: Store, http: HttpClient, registry: Registry) -> None:
    """Declared sizes may be wrong, so every byte is counted before it is written."""
    budget = Budget.at(store.path, Limits(bytes=1_000_000))
    several = downloads(store, http, registry, registry)
    with Incoming(store, budget) as incoming, pytest.raises(ImageError, match="1000000 bytes"):
        several.add_all(incoming, WANTED)
    written = sum(path.stat().st_size for path in Path(several.directory).iterdir())
    assert written <= 1_000_000
    assert len(several.sources.registries) == 2  # no source is to blame
    assert budget.bytes <= 1_000_000


def test_a_mirror_with_wrong_blobs_is_given_up_once(
    store: Store, http: HttpClient, registry: Registry
) -> None:
    """All downloads detect it at once; none may drop the right source."""
    with Registry() as mirror:
        for digest, data in BLOBS.items():
            mirror.blobs["web", digest] = b"x" * len(data)
        several = downloads(store, http, mirror, registry)
        with Incoming(store) as incoming:
            several.add_all(incoming, WANTED)
    assert [one.host for one in several.sources.registries] == [registry.host]
