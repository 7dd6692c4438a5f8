"""Restart policies: whether an exited container is restarted, and after which backoff; pure."""

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
STABLE = 10.0  # seconds of uptime that reset the backoff


def next_delay(before: float, uptime: float) -> float:
    """Return the next backoff in seconds.

    ``before`` is the previous backoff (0: none yet), ``uptime`` the length of the last run.
    """
    if before <= 0 or uptime >= STABLE:
        return FIRST_DELAY
    return min(before * 2, LONGEST_DELAY)


def should_restart(record: Record, *, at_reload: bool = False) -> bool:
    """Return whether the policy of a container that is not running demands a restart.

    An unknown exit status counts as a failure.  A container stopped by the user stays stopped,
    except that ``always`` starts it with the daemon (``at_reload``), as docker does.
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
