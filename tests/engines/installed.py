"""Install the runtime at the path in packaging/engines while engines use these files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support import isolation
from tests.support.project import ROOT

SNIPPETS = ROOT / "packaging/engines"
PLACE = Path("/usr/local/bin/ociruntime")


@contextmanager
def at_its_place(runtime: Path) -> Iterator[None]:
    """Mount a ``/usr/local/bin`` with only the runtime, in the session's mount namespace."""
    isolation.mount("none", str(PLACE.parent), "tmpfs", data="mode=755")
    try:
        PLACE.symlink_to(runtime)
        yield
    finally:
        isolation.unmount(str(PLACE.parent))
