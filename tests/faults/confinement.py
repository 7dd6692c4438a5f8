"""Start a command with a shortage of a resource."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tests.faults.scenarios import Stage


def _no_limit() -> None:
    """Change nothing in the command's process."""


@dataclass(frozen=True)
class Confinement:
    """A program that runs the command, and a function that its process calls before."""

    prefix: tuple[str, ...] = ()
    enter: Callable[[], None] = _no_limit


FREE = Confinement()
Around = Callable[[Stage], AbstractContextManager[Confinement]]
