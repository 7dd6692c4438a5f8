"""Whether a container that has ended is started again, and when; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ociruntime.manager.containers.record import Record

NO = "no"
ON_FAILURE = "on-failure"
ALWAYS = "always"
UNLESS_STOPPED = "unless-stopped"
NAMES = (NO, ON_FAILURE, ALWAYS, UNLESS_STOPPED)

FIRST_DELAY = 0.1  # seconds
LONGEST_DELAY = 60.0
STABLE = 10.0  # seconds after which a start counts as a success


def next_delay(before: float, uptime: float) -> float:
    """Seconds to wait, after ``before`` the time before (0: the first) and so long a run."""
    if before <= 0 or uptime >= STABLE:
        return FIRST_DELAY
    return min(before * 2, LONGEST_DELAY)


def should_restart(record: Record, *, at_reload: bool = False) -> bool:
    """Of a container that does not run.  An end that nobody has seen is a failure.

    What the user has stopped stays so, but that ``always`` is started with the daemon.
    """
    name, maximum = record.policy
    if not record.ever_started:
        return False
    if name == ALWAYS:
        return record.wanted == "running" or at_reload
    if record.wanted != "running":
        return False
    if name == UNLESS_STOPPED:
        return True
    failed = record.last.exit_code != 0
    return name == ON_FAILURE and failed and (not maximum or record.restart_count < maximum)
