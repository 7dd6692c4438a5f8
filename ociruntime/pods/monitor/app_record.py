"""The record of an app: a JSON object with the app's state, stored in the file state.json."""

from __future__ import annotations

import os
from typing import Any

from ociruntime.base import json_files
from ociruntime.base.errors import HostError
from ociruntime.base.files import remove_file
from ociruntime.pods.loop import worker
from ociruntime.pods.loop.event_loop import Loop, Timer

Record = dict[str, Any]


RETRY_INTERVAL = 1.0  # seconds until a failed write is retried


def new_record() -> Record:
    """Return the content of state.json for an app that has never been started."""
    return {
        "state": "prepared",
        "created": json_files.now(),
        "started": None,
        "finished": None,
        "exit_code": None,
        "signal": None,
        "oom_killed": False,
        "restarts": 0,
        "stopped_by": None,
        "reason": "",
        "pid": None,
    }


def record_start(record: Record) -> None:
    """Reset the results of the last run, such as ``exit_code``, before an app is started.

    If the app was started before, increment ``restarts``.
    """
    is_restart = record["started"] is not None
    record.update(
        {"state": "prepared", "finished": None, "exit_code": None, "signal": None},
        oom_killed=False,
        stopped_by=None,
        reason="",
        restarts=record["restarts"] + is_restart,
    )


def record_exit(record: Record, wait_status: int, oom_killed: bool) -> None:
    """Set ``exit_code``, ``signal`` and ``oom_killed`` in an app's ``record``.

    ``wait_status`` is the wait status of the app's process (waitpid(2)).
    """
    killed = os.WIFSIGNALED(wait_status)
    record.update(
        exit_code=worker.exit_status(wait_status),
        signal=os.WTERMSIG(wait_status) if killed else None,
        oom_killed=oom_killed,
    )


class RecordFile:
    """The files that store an app's record (state.json) and its exit code (status).

    A failed write, for example because the disk is full, does not stop the app: ``save_or_retry``
    and ``save_exit`` retry it.
    """

    __slots__ = ("_code", "_directory", "_loop", "_record", "_timer")

    def __init__(self, loop: Loop, directory: str, record: Record) -> None:
        self._loop = loop
        self._directory = directory
        self._record = record
        self._code = b""  # content of the file ``status``, until it is written
        self._timer: Timer | None = None  # set while a failed write waits to be retried

    def save(self) -> None:
        """Write the app's record to state.json before an action, such as the start of the app.

        Raises HostError if the write fails; in that case, the caller must not perform the action.
        """
        if self._code:
            json_files.replace_text(f"{self._directory}/status", self._code)
            self._code = b""
        # Only an exit must survive a power failure: it cannot be determined again.
        ended = self._record["state"] == "exited"
        json_files.replace(f"{self._directory}/state.json", self._record, lasting=ended)
        self.give_up()

    def save_start(self) -> None:
        """Write the record before the app is started, and remove the exit code of its last run.

        Raises HostError if the write fails.
        """
        self._code = b""
        path = f"{self._directory}/status"
        try:
            remove_file(path)
        except OSError as error:
            raise HostError(f'remove "{path}"', error) from None
        self.save()

    def save_or_retry(self) -> None:
        """Write the record after an event; if the write fails, retry every second."""
        try:
            self.save()
        except HostError:
            if self._timer is None:
                self._timer = self._loop.after(RETRY_INTERVAL, self._retry)

    def save_exit(self) -> None:
        """Write the record and the exit code after the app's exit; retry if a write fails."""
        self._code = f"{self._record['exit_code']}\n".encode()
        self.save_or_retry()

    def _retry(self) -> None:
        self._timer = None
        self.save_or_retry()

    @property
    def is_late(self) -> bool:
        """Return whether a write has failed and will be retried."""
        return self._timer is not None

    def give_up(self) -> None:
        """Cancel the retry of a failed write."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def save_late(self) -> None:
        """Write the record if an earlier write failed.  Raises HostError if it fails again."""
        if self.is_late:
            self.give_up()
            self.save()
