"""Downloads next to the store: files shared with it do not change."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from ociruntime.base.errors import HostError, ImageError
from ociruntime.images.model.image import Descriptor, silent
from ociruntime.images.registry.http_client import HttpClient
from ociruntime.images.registry.parallel_downloads import Downloads
from ociruntime.images.registry.registry import Registry as Client
from ociruntime.images.registry.resumable_download import Download, remove_stale
from ociruntime.images.registry.sources import Sources
from tests.support import file_size_limit, images
from tests.support.registry import Registry

CONTENT = b"content" * 1000
DIGEST = images.digest(CONTENT)


@pytest.fixture
def sources() -> Iterator[Sources]:
    http = HttpClient(frozenset())
    with Registry() as registry:
        registry.blobs["web", DIGEST] = CONTENT
        yield Sources([Client(registry.host, "web", http)])
    http.close()


def download(directory: Path, sources: Sources, size: int) -> Download:
    return Download(str(directory), sources, Descriptor("", DIGEST, size))


@pytest.mark.parametrize("size", [0, 100, len(CONTENT) + 5])
def test_a_shared_file_is_not_changed(tmp_path: Path, sources: Sources, size: int) -> None:
    """A manifest with another size for the blob does not change the store's file."""
    with download(tmp_path / "partial", sources, len(CONTENT)) as one:
        one.complete()
        os.link(one.path, tmp_path / "blob")
    with download(tmp_path / "partial", sources, size) as other, pytest.raises(ImageError):
        other.complete()
    assert (tmp_path / "blob").read_bytes() == CONTENT


def test_a_whole_shared_file_need_not_come_again(tmp_path: Path, sources: Sources) -> None:
    with download(tmp_path / "partial", sources, len(CONTENT)) as one:
        one.complete()
        os.link(one.path, tmp_path / "blob")
    with download(tmp_path / "partial", sources, len(CONTENT)) as other:
        assert other.resumed == len(CONTENT)
        other.complete()
        assert os.path.samefile(other.path, tmp_path / "blob")


def test_stale_ones_go_unless_they_are_in_use(tmp_path: Path, sources: Sources) -> None:
    with download(tmp_path / "partial", sources, len(CONTENT)) as one:
        one.complete()
        assert remove_stale(str(tmp_path / "partial"), 0) == (0, 0)
    assert remove_stale(str(tmp_path / "partial"), 3600) == (0, 0)
    assert remove_stale(str(tmp_path / "partial"), 0) == (1, len(CONTENT))
    assert os.listdir(tmp_path / "partial") == []


def test_a_size_that_the_registry_does_not_have(tmp_path: Path, sources: Sources) -> None:
    wanted = len(CONTENT) + 5
    words = f"size mismatch: expected {wanted} bytes, got {len(CONTENT)} from http://127"
    with download(tmp_path, sources, wanted) as one, pytest.raises(ImageError, match=words):
        one.complete()


@pytest.mark.parametrize("length", ["\xb2", "9" * 5000, "-1", ""])
def test_a_size_that_is_no_number(tmp_path: Path, length: str) -> None:
    """For chunked responses, the HTTP library ignores the header."""
    response = Mock(headers={"Content-Length": length})
    response.raw.read.side_effect = [CONTENT, b""]
    others = Mock()
    others.open_blob.return_value = (response, 0)
    with download(tmp_path, others, len(CONTENT)) as one:
        one.complete()


def test_no_place_for_it(tmp_path: Path, sources: Sources) -> None:
    (tmp_path / "partial").touch()
    one = download(tmp_path / "partial", sources, len(CONTENT))
    with pytest.raises(HostError, match=rf'open download "{one.path}": file exists'):
        one.__enter__()
    words = f'download "{tmp_path}/here/sha256-[0-9a-f]*": file too large'
    with (
        download(tmp_path / "here", sources, len(CONTENT)) as other,
        file_size_limit.limited(4096),
        pytest.raises(HostError, match=words),
    ):
        other.complete()


@pytest.mark.timeout(20)
def test_a_download_that_takes_too_long(tmp_path: Path, sources: Sources) -> None:
    """A slow registry keeps the file locked: the blob is downloaded to another file."""
    shared = tmp_path / f"{DIGEST.replace(':', '-')}"
    shared.write_bytes(CONTENT[:5])
    with shared.open("rb") as dripping:
        fcntl.flock(dripping, fcntl.LOCK_EX)
        with Download(str(tmp_path), sources, Descriptor("", DIGEST, len(CONTENT)), 0.1) as one:
            one.complete()
            assert Path(one.path).read_bytes() == CONTENT
            assert one.resumed == 0
            assert remove_stale(str(tmp_path), 0) == (0, 0)
        downloads = Downloads(str(tmp_path), sources, silent)
        downloads.blobs.append(Descriptor("", DIGEST, len(CONTENT)))
        downloads.discard()
    assert os.listdir(tmp_path) == [shared.name]
    assert shared.read_bytes() == CONTENT[:5]


def test_a_download_that_makes_progress_is_waited_for(tmp_path: Path, sources: Sources) -> None:
    shared = tmp_path / f"{DIGEST.replace(':', '-')}"
    with shared.open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        other.truncate(1 << 20)

        def finish() -> None:
            other.truncate(0)
            other.write(CONTENT)
            other.flush()
            fcntl.flock(other, fcntl.LOCK_UN)

        timer = threading.Timer(0.3, finish)
        timer.start()
        blob = Descriptor("", DIGEST, len(CONTENT))
        with Download(str(tmp_path), sources, blob, 0.2) as one:
            assert one.path == str(shared)
            assert one.resumed == len(CONTENT)
        timer.join()
