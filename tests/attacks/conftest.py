"""Attacks on the host from inside a container, or from a directory that another user prepared.

Each test is one attack and one row of the table that ``./dev attack`` prints: it passes if the
runtime withstands it.  The same tests judge runc and crun (``--runtime=/usr/sbin/runc``).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.attacks.exchange import MakeHostile
from tests.manager.conftest import daemon, shell_root
from tests.pods.conftest import ocipod
from tests.support import static_program
from tests.support.bundle import Bundle

if TYPE_CHECKING:
    from tests.support.plugin import MakeBundle

__all__ = ["daemon", "ocipod", "shell_root"]


@pytest.fixture(autouse=True)
def _watch(nothing_left: None) -> None:
    """Fail an attack that leaves anything behind."""


@pytest.fixture
def tries(pytestconfig: pytest.Config) -> Callable[[int, int], int]:
    """Return how often to try a race: ``tries(100, 2000)`` is 100, or 2000 in the long mode."""
    full = bool(pytestconfig.getoption("--full-attacks"))
    return lambda short, long: long if full else short


@pytest.fixture(scope="session")
def exchange(base: Path) -> Path:
    """The static program of exchange.c."""
    return static_program.build(base / "exchange", Path(__file__).with_name("exchange.c"))


@pytest.fixture
def hostile_bundle(bundle: MakeBundle, exchange: Path) -> MakeHostile:
    """Make a bundle whose process is ``exchange`` with the arguments given."""

    def make(*args: str) -> Bundle:
        made = bundle("/bin/exchange", *args)
        shutil.copy(exchange, made.rootfs / "bin" / "exchange")
        return made

    return make
