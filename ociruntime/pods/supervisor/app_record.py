"""What is written down of an app in ``apps/NAME/state.json``: a record from its making on."""

from __future__ import annotations

import posix

from ociruntime.base import json_files as records
from ociruntime.base.errors import HostError
from ociruntime.base.files import remove_file
from ociruntime.pods.loop import worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ociruntime.pods.loop.loop import Loop, Timer

    Record = dict[str, Any]

AGAIN = 1.0  # seconds until what could not be written is tried once more


def new_record() -> Record:
    """Of an app that was never started."""
    return {
        "state": "prepared",
        "created": records.now(),
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
    """It is about to be started, perhaps not for the first time."""
    again = record["started"] is not None
    record.update(
        {"state": "prepared", "finished": None, "exit_code": None, "signal": None},
        oom_killed=False,
        stopped_by=None,
        reason="",
        restarts=record["restarts"] + again,
    )


def note_end(record: Record, wait_status: int, oom_killed: bool) -> None:
    """Its process has ended."""
    killed = posix.WIFSIGNALED(wait_status)
    record.update(
        exit_code=worker.exit_status(wait_status),
        signal=posix.WTERMSIG(wait_status) if killed else None,
        oom_killed=oom_killed,
    )


class RecordFile:
    """A record on the disk, and the file ``status`` with the exit code alone.

    When the disk is full, say, what happens anyway goes on, and is written as soon as it can be.
    """

    __slots__ = ("_code", "_directory", "_loop", "_record", "_timer")

    def __init__(self, loop: Loop, directory: str, record: Record) -> None:
        self._loop = loop
        self._directory = directory
        self._record = record
        self._code = b""  # still to be written to ``status``
        self._timer: Timer | None = None  # while the files are not what the record is

    def save(self) -> None:
        """Write what is about to be done.  Raises HostError: it is better not done then."""
        if self._code:
            records.replace_text(f"{self._directory}/status", self._code)
            self._code = b""
        # How an app has ended is to be read for as long as there is its pod.
        ended = self._record["state"] == "exited"
        records.replace(f"{self._directory}/state.json", self._record, lasting=ended)
        self.give_up()

    def save_start(self) -> None:
        """As ``save``, of an app that is about to be started and has no status."""
        self._code = b""
        remove_file(f"{self._directory}/status")
        self.save()

    def note(self) -> None:
        """Write what has happened, now or later."""
        try:
            self.save()
        except HostError:
            if self._timer is None:
                self._timer = self._loop.after(AGAIN, self._note_again)

    def note_end(self) -> None:
        """As ``note``, of an app that has ended: with its status."""
        self._code = f"{self._record['exit_code']}\n".encode()
        self.note()

    def _note_again(self) -> None:
        self._timer = None
        self.note()

    @property
    def is_late(self) -> bool:
        """Whether anything is still to be written."""
        return self._timer is not None

    def give_up(self) -> None:
        """Try no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def save_late(self) -> None:
        """Write what is still to be written, for the last time.  Raises HostError."""
        if self.is_late:
            self.give_up()
            self.save()
