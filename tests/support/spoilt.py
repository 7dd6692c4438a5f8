"""Ways in which a directory is not root's alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.ordinary_user import UID

QUICK = 20  # seconds; a command that opened a FIFO would wait forever

Spoil = Callable[[Path], None]


def theirs(path: Path) -> None:
    os.chown(path, UID, UID)


def open_to_all(path: Path) -> None:
    path.chmod(0o777)


def open_to_a_group(path: Path) -> None:
    os.chown(path, 0, UID)
    path.chmod(0o770)


SPOILT = pytest.mark.parametrize("spoil", [theirs, open_to_all, open_to_a_group])
