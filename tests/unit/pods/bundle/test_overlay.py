"""Reasons why an overlay is not possible."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ociruntime.pods.bundle import overlay

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it mounts")


@pytest.fixture
def home(tmp_path: Path) -> str:
    """A directory with everything that an app's overlay needs."""
    for name in ("upper", "work", "bundle/rootfs"):
        (tmp_path / name).mkdir(parents=True)
    return str(tmp_path)


def test_a_tree_whose_owners_cannot_be_mapped(home: str) -> None:
    why = overlay.mount_error("/proc", home, (100000, 65536))
    assert why.endswith(' "/proc": invalid argument')


def test_an_upper_directory_that_cannot_be_one(home: str, tmp_path: Path) -> None:
    os.rmdir(f"{home}/upper")
    os.symlink("/proc", f"{home}/upper")
    why = overlay.mount_error("/usr", home, None)
    assert why.startswith(f'mount overlay at "{home}/bundle/rootfs": '), why
