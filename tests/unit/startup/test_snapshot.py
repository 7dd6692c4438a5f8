"""Making a snapshot in the background, after a command has done its work."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from ociruntime.startup import snapshot


@pytest.mark.parametrize("error", [errno.ENOMEM, errno.EIO])
def test_snapshot_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    """The command has succeeded, and must not fail now; nothing is started in the background."""

    def inspect(path: str) -> None:
        raise OSError(error, path)

    def fork() -> int:
        raise AssertionError("a process was started")

    monkeypatch.setattr(snapshot, "inspect", inspect)
    monkeypatch.setattr(snapshot, "thawed", False)
    monkeypatch.setattr(snapshot, "location", lambda *_: f"{tmp_path}/.snapshot")
    monkeypatch.setattr("posix.fork", fork)
    snapshot.make_in_background()


class Head:
    """A snapshot's head, in the format of csrc/snapshot/format.h, that depends on one file."""

    def __init__(self, watched: Path) -> None:
        self.program = snapshot.own_program()
        self.boot = Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()
        self.magic = snapshot.MAGIC
        self.counts = [0, 1]  # mapped and watched files
        self.watched = watched
        self.end = b"\0"  # of the last path

    def data(self) -> bytes:
        paths = bytearray()
        places = []
        for path in (self.program, str(self.watched)):
            places.append(len(paths))
            paths += path.encode() + b"\0"
        paths[-1:] = self.end
        paths += bytes(-len(paths) % 8) if self.end else b"x" * (-len(paths) % 8)
        head = bytearray(snapshot.PATHS_AT) + paths
        snapshot.COUNTS.pack_into(head, snapshot.COUNTS_AT, 0, 0, 0, *self.counts, places[0])
        head[snapshot.BOOT_AT : snapshot.BOOT_AT + len(self.boot)] = self.boot
        status = self.watched.stat()
        identity = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        snapshot.FILE.pack_into(head, snapshot.WATCHED_AT, *identity, places[1], 0)
        size = len(head)
        snapshot.BEGINNING.pack_into(head, 0, self.magic, snapshot.FORMAT, size, 0, size)
        checksum = snapshot._checksum(bytes(head))
        snapshot.BEGINNING.pack_into(head, 0, self.magic, snapshot.FORMAT, size, checksum, size)
        return bytes(head)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return the path of a snapshot in a directory of its own."""
    directory = tmp_path / "ociruntime"
    directory.mkdir(mode=0o700)
    return directory / ".snapshot"


@pytest.fixture
def head(tmp_path: Path) -> Head:
    watched = tmp_path / "watched"
    watched.write_text("1")
    return Head(watched)


def put(place: Path, data: bytes) -> None:
    place.unlink(missing_ok=True)
    place.write_bytes(data)
    place.chmod(0o600)


def test_a_valid_snapshot(place: Path, head: Head) -> None:
    put(place, head.data())
    assert snapshot.inspect(str(place)) == len(head.data())


DAMAGES: dict[str, tuple[dict[str, object], str, bool]] = {
    "magic": ({"magic": 1}, "another version", True),
    "too many files": ({"counts": [0, snapshot.MOST_WATCHED + 1]}, "another version", True),
    "too many mapped files": ({"counts": [snapshot.MOST_MAPPED + 1, 1]}, "another version", True),
    "path without end": ({"end": b""}, "another version", True),
    "boot": ({"boot": b"another"}, "last boot", True),
    "installation": ({"program": "/bin/sh"}, "another installation", False),
    "removed installation": ({"program": "/no/such"}, "another installation", True),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_head(place: Path, head: Head, damage: str) -> None:
    """Each is refused; whether a new snapshot would be usable depends on the damage."""
    changes, words, outdated = DAMAGES[damage]
    vars(head).update(changes)
    put(place, head.data())
    with pytest.raises(snapshot.Unusable, match=words) as refused:
        snapshot.inspect(str(place))
    assert refused.value.outdated == outdated


@pytest.mark.parametrize("size", [1, 39, snapshot.PATHS_AT - 1, snapshot.PATHS_AT + 8])
def test_a_truncated_snapshot(place: Path, head: Head, size: int) -> None:
    put(place, head.data()[:size])
    with pytest.raises(snapshot.Unusable, match="another version"):
        snapshot.inspect(str(place))


def test_a_file_that_has_changed(place: Path, head: Head) -> None:
    put(place, head.data())
    head.watched.write_text("22")
    with pytest.raises(snapshot.Unusable, match="has changed"):
        snapshot.inspect(str(place))
    head.watched.unlink()
    with pytest.raises(snapshot.Unusable, match="has changed"):
        snapshot.inspect(str(place))


def test_what_is_no_snapshot_of_ours(place: Path, head: Head) -> None:
    """Another kind of file, one that others can access, and an unsafe directory are refused."""
    with pytest.raises(snapshot.Unusable, match="not exist yet"):
        snapshot.inspect(str(place))
    place.mkdir()
    with pytest.raises(snapshot.Unusable, match="regular file"):
        snapshot.inspect(str(place))
    place.rmdir()
    place.symlink_to(head.watched)
    with pytest.raises(snapshot.Unusable, match="cannot be opened"):
        snapshot.inspect(str(place))
    put(place, head.data())
    place.chmod(0o640)
    with pytest.raises(snapshot.Unusable, match="others have access"):
        snapshot.inspect(str(place))
    put(place, b"")
    with pytest.raises(snapshot.Unusable, match="cannot be saved"):
        snapshot.inspect(str(place))
    put(place, head.data())
    place.parent.chmod(0o770)
    with pytest.raises(snapshot.Unusable, match="users may write"):
        snapshot.inspect(str(place))
    with pytest.raises(snapshot.Unusable, match="XDG_RUNTIME_DIR"):
        snapshot.inspect("")


def test_the_switch(
    place: Path, head: Head, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(place, head.data())
    monkeypatch.setattr(snapshot, "SWITCH", str(tmp_path))
    with pytest.raises(snapshot.Unusable, match="disabled"):
        snapshot.inspect(str(place))


def test_the_line_of_the_debug_log(
    place: Path, head: Head, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "location", lambda *_: str(place))
    monkeypatch.setattr(snapshot, "thawed", False)
    assert "not exist yet" in snapshot.how_started()
    put(place, head.data())
    assert "not be mapped" in snapshot.how_started()
    with monkeypatch.context() as patch:
        patch.setattr(snapshot, "BOOT_ID", str(place / "none"))
        assert f"{place}/none cannot be read" in snapshot.how_started()
    monkeypatch.setattr(snapshot, "thawed", True)
    assert "from the snapshot" in snapshot.how_started()
