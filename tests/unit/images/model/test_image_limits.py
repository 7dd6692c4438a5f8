"""The limits of an image, and the check of the filesystem's free space."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ociruntime.base.errors import HostError, ImageError
from ociruntime.images.model.image_limits import MIB, Budget, Limits
from ociruntime.images.tar.file_attributes import AttributeWarnings

BLOCK = 4096


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A filesystem of 10 GiB with a million inodes."""
    found = SimpleNamespace(f_frsize=BLOCK, f_blocks=10 << 18, f_files=1_000_000)
    found.f_bfree, found.f_ffree = found.f_blocks, found.f_files
    monkeypatch.setattr("posix.statvfs", lambda place: found)
    return found


def test_what_others_write_counts(disk: SimpleNamespace) -> None:
    """Free space is checked again: it shrinks by more than this image uses."""
    budget = Budget.at("/", Limits())
    budget.take_bytes(100 * MIB)
    disk.f_bfree = 150 * MIB // BLOCK  # of which a hundredth of the whole is to stay
    budget.take_bytes(40 * MIB)
    disk.f_bfree = 110 * MIB // BLOCK
    with pytest.raises(ImageError, match=r"free .*\"reserve\""):
        budget.take_bytes(10 * MIB)


def test_what_is_announced_must_fit(disk: SimpleNamespace) -> None:
    budget = Budget.at("/", Limits())
    disk.f_bfree = 200 * MIB // BLOCK  # of which 1 % of the whole is to stay
    budget.check_room(90 * MIB, "the layers")
    with pytest.raises(ImageError, match=r"layers need \d+ bytes"):
        budget.check_room(150 * MIB, "the layers")
    assert budget.bytes == 0
    disk.f_bfree = disk.f_blocks
    with pytest.raises(ImageError, match='limited by "bytes"'):
        budget.check_room(1 << 62, "the layers")


def test_a_reserve_is_left_free(disk: SimpleNamespace) -> None:
    disk.f_bfree = 1024 * MIB // BLOCK
    for reserve, kept in ((0, 0), (50 * MIB, 50 * MIB), (1 << 60, 10 * 1024 * MIB // 100)):
        budget = Budget.at("/", Limits(reserve=reserve))
        budget.check_bytes(1024 * MIB - kept - BLOCK)
        with pytest.raises(ImageError, match="that are free"):
            budget.check_bytes(1024 * MIB - kept + BLOCK)


def test_inodes_are_left_free(disk: SimpleNamespace) -> None:
    disk.f_ffree = 10_003
    budget = Budget.at("/", Limits())
    for _ in range(3):
        budget.take_file()
    with pytest.raises(ImageError, match="free inodes"):
        budget.take_file()
    disk.f_files = disk.f_ffree = 0  # not counted, as btrfs does
    Budget.at("/", Limits()).take_file()


def test_a_file_system_that_is_not_there() -> None:
    with pytest.raises(HostError, match="free space"):
        Budget.at("/nowhere", Limits()).take_bytes(1)


def test_holes_count_once_they_are_many() -> None:
    budget = Budget(Limits(floor=1000, ratio=2), lambda: (1 << 40, 1 << 40))
    budget.take_hole(1000)
    with pytest.raises(ImageError, match=r"sparse file .*1001"):
        budget.take_hole(1)
    budget.source = 600
    budget.take_hole(100)


def test_notes_about_an_image_do_not_grow_with_it() -> None:
    warnings = AttributeWarnings()
    for number in range(1000):
        warnings.add(f"the extended attribute {number}", "the host gives it to files itself", "a")
    lines = warnings.lines()
    assert len(lines) == 101
    assert lines[-1].startswith('ignored further extended attributes of "a" and 899 more')
