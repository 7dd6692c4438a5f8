"""Bundles with a single defect, and the error message for each.

Every entry starts from the config that ``ociruntime spec`` writes, with ``terminal`` false,
in a bundle whose ``rootfs`` holds a static busybox as ``bin/busybox`` and ``bin/sh``.
``entry.config()`` is what to write as config.json (None: write none), ``entry.files`` what to
add to the bundle: relative path -> (content, mode).  Then ``create`` must exit with status 1,
write one error line that holds every text of ``entry.says``, and leave nothing behind.

``entry.stage`` is "spec" for what loading the bundle alone finds out (a unit test does that in
process), and "create" for what only shows when the container is made.  With "start", ``create``
succeeds and it is ``start`` that fails in this way.  For these two, ``says`` keeps to what does
not depend on the host: the JSON path, the value, the kernel's word.
"""

from __future__ import annotations

from tests.errors.changes import BrokenBundle
from tests.errors.found_by_creating import FOUND_BY_CREATING, FOUND_BY_STARTING
from tests.errors.found_by_loading import FOUND_BY_LOADING

__all__ = ["BROKEN_BUNDLES", "BrokenBundle"]

BROKEN_BUNDLES: tuple[BrokenBundle, ...] = (
    *FOUND_BY_LOADING,
    *FOUND_BY_CREATING,
    *FOUND_BY_STARTING,
)
