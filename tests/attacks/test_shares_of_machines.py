"""Directories shared with a virtual machine that have other filesystems mounted below."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ociruntime.pods.bundle.private_mount_namespace import NODEV, NOSUID
from ociruntime.pods.kvm.confinement import RDONLY, _bind_mount
from tests.support import isolation
from tests.support.peers import judge_by

pytestmark = judge_by("ociruntime")


def test_a_read_only_share_is_read_only_below(isolated: None, work: Path) -> None:
    """A remount changes only one mount, not the mounts below it."""
    share, root = work / "share", work / "root"
    (share / "below").mkdir(parents=True)
    root.mkdir()
    isolation.mount("tmpfs", str(share / "below"), "tmpfs")
    try:
        os.mknod(share / "below/null", 0o20666, os.makedev(1, 3))
        _bind_mount(str(root), str(share), RDONLY | NOSUID | NODEV)
        shown = Path(f"{root}{share}/below")
        try:
            with pytest.raises(OSError, match="Read-only file system"):
                (shown / "file").touch()
            with pytest.raises(PermissionError):
                (shown / "null").read_bytes()
        finally:
            isolation.unmount(f"{root}{share}")
    finally:
        isolation.unmount(str(share / "below"))
