"""How a command is started with a shortage."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tests.faults.scenarios import Stage


def _no_limit() -> None:
    """Change nothing in the command's process."""


@dataclass(frozen=True)
class Confinement:
    """A command in front of the command, and what the command's process calls before it."""

    prefix: tuple[str, ...] = ()
    enter: Callable[[], None] = _no_limit


FREE = Confinement()
Around = Callable[[Stage], AbstractContextManager[Confinement]]
