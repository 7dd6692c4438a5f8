"""The undo stack of a running command: reverts completed steps, the last one first.

After a killed ``create`` the next command cleans up: ``delete.clear_interrupted``."""

from __future__ import annotations

from ociruntime.base.errors import RuntimeFailure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ociruntime.base.log import Log


class Rollback:
    """A stack of undo functions; each is pushed just before or after the change that it undoes."""

    __slots__ = ("_log", "_steps")

    def __init__(self, log: Log) -> None:
        self._steps: list[Callable[[], object]] = []
        self._log = log

    def push(self, step: Callable[[], object]) -> None:
        """Push the function that undoes a change."""
        self._steps.append(step)

    def undo(self, failure: BaseException) -> None:
        """Undo everything, last first; a step that fails does not stop the others.

        ``failure`` is the reason, which gets a note for each step that could not be undone.
        """
        while self._steps:
            step = self._steps.pop()
            try:
                step()
            except (RuntimeFailure, OSError) as error:
                left = f"while cleaning up: {error}"
                failure.add_note(left)
                self._log.warning(left)

    def keep(self) -> None:
        """Drop all undo functions: the work is complete."""
        self._steps.clear()
