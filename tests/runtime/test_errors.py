"""Broken bundles on the command line: a one-line error, and nothing left behind."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.errors.broken_bundles import BROKEN_BUNDLES, BrokenBundle
from tests.support.peers import judge_by
from tests.support.plugin import TAG
from tests.support.runtime import Runtime

pytestmark = judge_by("ociruntime")


@pytest.fixture
def broken(request: pytest.FixtureRequest, work: Path) -> tuple[BrokenBundle, Path]:
    """A broken bundle: its entry, and its directory."""
    entry: BrokenBundle = request.param
    bundle = work / "bundle"
    (bundle / "rootfs" / "bin").mkdir(parents=True)
    shutil.copy("/bin/busybox", bundle / "rootfs" / "bin" / "busybox")
    (bundle / "rootfs" / "bin" / "sh").symlink_to("busybox")
    for name, (content, mode) in entry.files.items():
        (bundle / name).parent.mkdir(parents=True, exist_ok=True)
        (bundle / name).write_text(content)
        (bundle / name).chmod(mode)
    config = entry.config()
    if config is not None:
        (bundle / "config.json").write_bytes(config)
    return entry, bundle


@pytest.mark.parametrize("broken", BROKEN_BUNDLES, ids=lambda e: e.name, indirect=True)
def test_broken_bundle(runtime: Runtime, broken: tuple[BrokenBundle, Path]) -> None:
    """Create fails; errors that only execve(2) detects may be reported by start."""
    entry, bundle = broken
    result = runtime("create", "--bundle", str(bundle), TAG)
    if result.status == 0:
        result = runtime("start", TAG)
        runtime("delete", "--force", TAG).silent()
    assert result.status == 1
    assert result.out == ""
    for text in entry.says:
        assert text in result.message


@pytest.mark.parametrize("broken", BROKEN_BUNDLES[:1], ids=lambda e: e.name, indirect=True)
def test_run_says_the_same(runtime: Runtime, broken: tuple[BrokenBundle, Path]) -> None:
    entry, bundle = broken
    result = runtime("run", "--bundle", str(bundle), TAG)
    assert result.status == 1
    assert all(text in result.err for text in entry.says)


def test_there_are_forty() -> None:
    assert len(BROKEN_BUNDLES) >= 40
