"""The state of a container that another command deletes meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from ociruntime.base.errors import NoSuchContainer
from ociruntime.runtime.lifecycle.container import Container
from ociruntime.runtime.lifecycle.state import describe_container


def test_deleted_since_it_was_loaded(tmp_path: Path) -> None:
    facts = {"pid": 0, "processStart": 0}
    with pytest.raises(NoSuchContainer, match="does not exist"):
        describe_container(Container("one", str(tmp_path / "one"), facts))
