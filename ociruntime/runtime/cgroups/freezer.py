"""Pausing: freezer.state in v1, cgroup.freeze and cgroup.events in v2."""

from __future__ import annotations

import errno

from ociruntime.base.errors import HostError
from ociruntime.runtime.cgroups.control_files import failure, gone, read, write
from ociruntime.runtime.cgroups.members import wait_for

_PATIENCE = 10.0  # seconds


def frozen(directory: str, version: int) -> bool:
    """True if the cgroup is frozen or on its way there; False also if it is gone."""
    try:
        if version == 1:
            return _state_v1(directory) != "THAWED"
        return read(f"{directory}/cgroup.freeze").strip() == "1" or event(directory, "frozen") == 1
    except OSError as error:
        if gone(error):
            return False
        raise failure(f"read the freezer of {directory}", error) from None


def freeze(directory: str, version: int) -> None:
    """Stop every process and return when all have stopped.

    If some do not within 10 s, all are set going again and HostError is raised.
    """
    file, on, off = _command(version)
    try:
        write(f"{directory}/{file}", on)
        if wait_for(lambda: _has_stopped(directory, version, on), _PATIENCE):
            return
        write(f"{directory}/{file}", off)
    except OSError as error:
        raise failure(f"freeze {directory}", error) from None
    late = OSError(errno.ETIMEDOUT, "timed out")
    hint = "a process in an uninterruptible wait cannot be frozen"
    raise HostError(f"freeze {directory}", late, hint)


def thaw(directory: str, version: int) -> None:
    """Let everybody go on.  A cgroup that is gone is thawed.  Raises HostError."""
    file, _, off = _command(version)
    try:
        write(f"{directory}/{file}", off)
    except OSError as error:
        if not gone(error):
            raise failure(f"thaw {directory}", error) from None


def event(directory: str, name: str, file: str = "cgroup.events") -> int:
    """One number of a flat-keyed file; 0 if the key is missing.  Raises OSError."""
    for line in read(f"{directory}/{file}").splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0


def _command(version: int) -> tuple[str, str, str]:
    if version == 1:
        return "freezer.state", "FROZEN", "THAWED"
    return "cgroup.freeze", "1", "0"


def _state_v1(directory: str) -> str:
    return read(f"{directory}/freezer.state").strip()


def _has_stopped(directory: str, version: int, on: str) -> bool:
    if version == 2:
        return event(directory, "frozen") == 1
    if _state_v1(directory) == on:
        return True
    # A process that was being forked slips through: the kernel catches it on another write.
    write(f"{directory}/freezer.state", on)
    return False
