"""The record next to CRIU's images is read as untrusted input."""

from __future__ import annotations

from pathlib import Path

import pytest

from ociruntime.base.errors import ContainerError, HostError
from ociruntime.runtime.lifecycle.checkpoint.checkpoint import make_directory
from ociruntime.runtime.lifecycle.checkpoint.image_record import NAME, ImageRecord, read_record


def test_written_and_read(tmp_path: Path) -> None:
    ImageRecord({"m0": ["/a", "/b", "ro"]}, ["", "pipe:[1]", ""], ["network"]).write(str(tmp_path))
    record = read_record(str(tmp_path))
    assert record.mounts == {"m0": ["/a", "/b", "ro"]}
    assert (record.streams, record.namespaces) == (["", "pipe:[1]", ""], ["network"])


@pytest.mark.parametrize(
    "mounts",
    ['{"/a]:x": ["", "", ""]}', '{"m0": "/a"}', '{"m0": ["/a"]}', "[]", '{"m0": [1, 2, 3]}'],
)
def test_of_another_form(tmp_path: Path, mounts: str) -> None:
    text = f'{{"version": 1, "streams": [], "namespaces": [], "mounts": {mounts}}}'
    (tmp_path / NAME).write_text(text)
    with pytest.raises(ContainerError, match="is malformed"):
        read_record(str(tmp_path))


def test_of_another_version_or_none(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=f"{NAME}.: no such file or directory"):
        read_record(str(tmp_path))
    (tmp_path / NAME).write_text('{"version": 2}')
    with pytest.raises(ContainerError, match="another version"):
        read_record(str(tmp_path))


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HostError, match="directory"):
        make_directory(f"{tmp_path}/file/images")
