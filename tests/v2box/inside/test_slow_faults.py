"""A page fault takes as long as copying many pages in User-Mode Linux."""

from __future__ import annotations

from pathlib import Path

from ociruntime.startup import snapshot
from tests.support.runtime import Runtime
from tests.support.snapshot_regions import COPIED, SNAPSHOT, regions


def test_a_snapshot_is_copied(runtime: Runtime) -> None:
    runtime("snapshot", "make", "ociruntime").ok()
    found = regions(Path(snapshot.location({}, 0)).read_bytes())
    kinds = {one.content for one in found if one.writable}
    assert COPIED in kinds
    assert SNAPSHOT not in kinds
    # The kernel places all stacks within 8 MB here: a twelfth of them lies where the saved one was.
    starts = (runtime("--debug", "features").ok().err for _ in range(6))
    assert any("from the snapshot" in start for start in starts)
