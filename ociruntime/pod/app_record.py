"""What is written down of an app in ``apps/NAME/state.json``: a record from its making on."""

from __future__ import annotations

import posix

from ociruntime.monitor import records, worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Record = dict[str, Any]


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
