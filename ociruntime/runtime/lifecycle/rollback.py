"""The undo stack of a running command: it reverts the completed steps, last one first.

A killed command cannot do that; the next command for the same id does
(``delete.clear_interrupted``).
"""

from __future__ import annotations

import posix
from collections.abc import Callable

from ociruntime.base.errors import HostError, RuntimeFailure
from ociruntime.base.log import Log


class Rollback:
    """A stack of undo functions, each pushed just before or after the change that it undoes."""

    __slots__ = ("_log", "_spare", "_steps")

    def __init__(self, log: Log) -> None:
        self._steps: list[Callable[[], object]] = []
        self._log = log
        self._spare = -1

    def reserve(self) -> None:
        """Set a descriptor aside for ``undo``, in case the command fails because there are too few.

        Raises HostError.
        """
        try:
            self._spare = posix.dup(2)
        except OSError as error:
            raise HostError("reserve a file descriptor", error) from None

    def _release(self) -> None:
        if self._spare >= 0:
            posix.close(self._spare)
            self._spare = -1

    def push(self, step: Callable[[], object]) -> None:
        """Push a function that undoes a change; it may raise RuntimeFailure or OSError."""
        self._steps.append(step)

    def undo(self, failure: BaseException) -> None:
        """Call all undo functions, last one first, even if some of them fail.

        Each failure is logged as a warning, and added to ``failure``, the command's error, as a
        note.
        """
        self._release()
        while self._steps:
            step = self._steps.pop()
            try:
                step()
            except (RuntimeFailure, OSError) as error:
                note = f"while cleaning up: {error}"
                failure.add_note(note)
                self._log.warning(note)

    def keep(self) -> None:
        """Drop all undo functions, because the work is complete."""
        self._release()
        self._steps.clear()
