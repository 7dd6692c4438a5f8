"""The socket at which a runtime passes a terminal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ociruntime.base.errors import HostError
from ociruntime.pods.monitor.app_streams import ConsoleListener
from tests.support.descriptors import open_descriptors


def test_nothing_stays_open_where_it_cannot_listen(tmp_path: Path) -> None:
    """The exception, and through it the listener, is still referenced."""
    before = open_descriptors()
    with pytest.raises(HostError, match=r"listen on .*[Nn]o such file or directory") as raised:
        ConsoleListener(str(tmp_path / "missing" / "console"))
    assert raised.tb is not None
    assert open_descriptors() == before


def test_nobody_calls(tmp_path: Path) -> None:
    before = open_descriptors()
    listener = ConsoleListener(str(tmp_path / "console"))
    assert listener.take() == -1
    assert open_descriptors() == before
    assert os.listdir(tmp_path) == []
