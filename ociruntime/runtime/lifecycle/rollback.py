"""The undo stack of a running command: it undoes the completed steps, the last one first.

The steps push their undo functions themselves (``create_steps.py`` for `create`).

If the command is killed, the next command for the same id undoes its steps instead
(``delete.clear_interrupted``).
"""

from __future__ import annotations

import posix
from collections.abc import Callable

from ociruntime.base.errors import HostError, RuntimeFailure
from ociruntime.base.log import Log


class Rollback:
    """A stack of functions that undo changes; the function that was pushed last is called first.

    Each function is pushed just before or just after the change is made.
    """

    __slots__ = ("_log", "_spare", "_steps")

    def __init__(self, log: Log) -> None:
        self._steps: list[Callable[[], object]] = []
        self._log = log
        self._spare = -1

    def reserve(self) -> None:
        """Open a spare descriptor, which ``undo`` closes so that it can open files itself.

        All other descriptors may be in use by then.  Raises HostError.
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
        """Call all functions on the stack, the last one first, even if some of them fail.

        Logs each error as a warning, and adds it as a note to ``failure``, the error of the
        command.
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
        """Drop the functions without calling them, because the command has succeeded."""
        self._release()
        self._steps.clear()
