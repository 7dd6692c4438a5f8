"""Downloads whose file or connection fails: the message, and what stays for the next attempt."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ociruntime.base.errors import HostError, RegistryError
from ociruntime.images.model.image import Descriptor
from ociruntime.images.registry import resumable_download
from ociruntime.images.registry.resumable_download import Download, remove_stale
from tests.support import images

CONTENT = b"content" * 1000
DIGEST = images.digest(CONTENT)


class Response:
    """A response of a registry: the bytes, then an error."""

    url = "https://registry/blob?token=secret"

    def __init__(self, data: bytes, length: int, error: Exception | None = None) -> None:
        self.data = data
        self.error = error
        self.headers = {"Content-Length": str(length)}
        self.raw = self
        self.closed = False

    def read(self, size: int, *, decode_content: bool) -> bytes:
        assert not decode_content
        part, self.data = self.data[:size], self.data[size:]
        if not part and self.error is not None:
            raise self.error
        return part

    def close(self) -> None:
        self.closed = True


class Registry:
    """Sources that give one response after the other, each from the beginning of the blob."""

    def __init__(self, *responses: Response) -> None:
        self.responses = list(responses)
        self.given: list[Response] = []

    def open_blob(self, digest: str, begin: int) -> tuple[Any, int]:
        del digest, begin
        self.given.append(self.responses.pop(0))
        return self.given[-1], 0


def download(directory: Path, *responses: Response) -> Download:
    registry: Any = Registry(*responses)
    return Download(str(directory), registry, Descriptor("", DIGEST, len(CONTENT)))


def whole(data: bytes = CONTENT, error: Exception | None = None) -> Response:
    return Response(data, len(CONTENT), error)


@pytest.fixture(autouse=True)
def open_descriptors() -> Iterator[None]:
    before = os.listdir("/proc/self/fd")
    yield
    assert os.listdir("/proc/self/fd") == before


def fail(*_: object) -> None:
    raise OSError(5, os.strerror(5))


def test_a_registry_without_ranges_is_read_again(tmp_path: Path) -> None:
    """The connection breaks, and the next answer begins at the start: known bytes are skipped."""
    with download(tmp_path, whole(CONTENT[:3000], OSError("reset")), whole()) as one:
        one.complete()
        assert Path(one.path).read_bytes() == CONTENT


def test_a_registry_that_breaks_off_within_the_known_bytes(tmp_path: Path) -> None:
    responses = (whole(CONTENT[:3000]), whole(CONTENT[:2000], ValueError("")))
    with (
        pytest.raises(RegistryError, match=f"download blob {DIGEST}: ValueError") as caught,
        download(tmp_path, *responses) as one,
    ):
        one.complete()
    assert caught.value.hint == "fetch again to resume the download"
    assert [response.closed for response in responses] == [True, True]
    with download(tmp_path, whole()) as again:
        assert again.resumed == 3000
        again.complete()


def test_a_registry_that_never_sends_it_all(tmp_path: Path) -> None:
    responses = [whole(CONTENT[:1000]) for _ in range(resumable_download._ATTEMPTS + 1)]
    message = f"download blob {DIGEST}: "
    with pytest.raises(RegistryError, match=message), download(tmp_path, *responses) as one:
        one.complete()


def test_a_program_without_memory(tmp_path: Path) -> None:
    """It is not taken for a fault of the connection."""
    with (
        pytest.raises(MemoryError),
        download(tmp_path, whole(b"", MemoryError())) as one,
    ):
        one.complete()
    assert os.listdir(tmp_path) == []


def test_a_file_that_cannot_be_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", fail)
    with (
        pytest.raises(HostError, match=f'write "{tmp_path}/sha256-.*": input/output error'),
        download(tmp_path, whole()) as one,
    ):
        one.complete()


def test_a_file_that_cannot_be_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch, download(tmp_path) as one:
        patch.setattr(os, "unlink", fail)
        with pytest.raises(HostError, match=f'remove "{one.path}": input/output error'):
            one.discard()
        patch.undo()
        one.discard()
        one.discard()
    assert os.listdir(tmp_path) == []


def test_a_file_that_is_longer_than_the_blob(tmp_path: Path) -> None:
    path = Path(resumable_download.partial_path(str(tmp_path), DIGEST))
    path.write_bytes(CONTENT + b"more")
    with download(tmp_path, whole()) as one:
        assert one.resumed == 0
        one.complete()
    assert path.read_bytes() == CONTENT


def test_a_longer_file_that_cannot_be_emptied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(resumable_download.partial_path(str(tmp_path), DIGEST))
    path.write_bytes(CONTENT + b"more")
    monkeypatch.setattr(os, "ftruncate", fail)
    with (
        pytest.raises(HostError, match=f'open download "{path}": input/output error'),
        download(tmp_path),
    ):
        pass


def test_stale_downloads_that_cannot_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert remove_stale(str(tmp_path / "none"), 0) == (0, 0)
    (tmp_path / "file").write_bytes(b"four")
    with pytest.raises(HostError, match=f'read directory "{tmp_path}/file": not a directory'):
        remove_stale(str(tmp_path / "file"), 0)
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", fail)
        with pytest.raises(HostError, match=f'remove "{tmp_path}/file": input/output error'):
            remove_stale(str(tmp_path), 0)
    assert remove_stale(str(tmp_path), 60) == (0, 0)
    assert remove_stale(str(tmp_path), 0) == (1, 4)
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(HostError, match=f'open "{tmp_path}/link": too many levels of symbolic'):
        remove_stale(str(tmp_path), 0)


def test_a_stale_download_that_is_removed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name may by now be that of a new download."""
    monkeypatch.setattr(os, "listdir", lambda _: ["gone", "replaced"])
    (tmp_path / "replaced").write_bytes(b"old")
    original = os.fstat

    def replace(fd: int) -> os.stat_result:
        facts = original(fd)
        os.unlink(tmp_path / "replaced")
        (tmp_path / "replaced").write_bytes(b"new")
        return facts

    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", replace)
        assert remove_stale(str(tmp_path), 0) == (0, 0)
    assert (tmp_path / "replaced").read_bytes() == b"new"
    monkeypatch.undo()
