"""An app's record, ``apps/NAME/state.json``, and how it is kept up to date on disk."""

from __future__ import annotations

import os
from typing import Any

from ociruntime.base import json_files
from ociruntime.base.errors import HostError
from ociruntime.base.files import remove_file
from ociruntime.pods.loop import worker
from ociruntime.pods.loop.event_loop import Loop, Timer

Record = dict[str, Any]


AGAIN = 1.0  # seconds until a failed write is retried


def new_record() -> Record:
    """Return the record of an app that was never started."""
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


def note_start(record: Record) -> None:
    """Update the record for a start, which may be a restart."""
    again = record["started"] is not None
    record.update(
        {"state": "prepared", "finished": None, "exit_code": None, "signal": None},
        oom_killed=False,
        stopped_by=None,
        reason="",
        restarts=record["restarts"] + again,
    )


def note_end(record: Record, wait_status: int, oom_killed: bool) -> None:
    """Update the record with the exit status of the app's process."""
    killed = os.WIFSIGNALED(wait_status)
    record.update(
        exit_code=worker.exit_status(wait_status),
        signal=os.WTERMSIG(wait_status) if killed else None,
        oom_killed=oom_killed,
    )


class RecordFile:
    """An app's record on disk, and the file ``status``, which has the exit code alone.

    A write that fails, for example because the disk is full, does not stop the app; it is retried.
    """

    __slots__ = ("_code", "_directory", "_loop", "_record", "_timer")

    def __init__(self, loop: Loop, directory: str, record: Record) -> None:
        self._loop = loop
        self._directory = directory
        self._record = record
        self._code = b""  # not yet written to ``status``
        self._timer: Timer | None = None  # set while the files are behind the record

    def save(self) -> None:
        """Write the record before an action.  On HostError the action must not happen."""
        if self._code:
            json_files.replace_text(f"{self._directory}/status", self._code)
            self._code = b""
        # The exit status must survive a power failure for as long as the pod exists.
        ended = self._record["state"] == "exited"
        json_files.replace(f"{self._directory}/state.json", self._record, lasting=ended)
        self.give_up()

    def save_start(self) -> None:
        """Write the record before a start, and remove the old status.  See ``save``."""
        self._code = b""
        remove_file(f"{self._directory}/status")
        self.save()

    def note(self) -> None:
        """Record what has happened, now or, if the write fails, later."""
        try:
            self.save()
        except HostError:
            if self._timer is None:
                self._timer = self._loop.after(AGAIN, self._note_again)

    def note_end(self) -> None:
        """Record that the app has exited, with its status.  See ``note``."""
        self._code = f"{self._record['exit_code']}\n".encode()
        self.note()

    def _note_again(self) -> None:
        self._timer = None
        self.note()

    @property
    def is_late(self) -> bool:
        """Return whether a write is still pending."""
        return self._timer is not None

    def give_up(self) -> None:
        """Cancel pending writes."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def save_late(self) -> None:
        """Write for the last time what is still pending.  Raises HostError."""
        if self.is_late:
            self.give_up()
            self.save()
