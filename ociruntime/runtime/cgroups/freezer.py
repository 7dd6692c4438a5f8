"""The cgroup freezer, used by `pause`: freezer.state (v1), cgroup.freeze and cgroup.events (v2)."""

from __future__ import annotations

import errno

from ociruntime.base.errors import HostError
from ociruntime.base.files import whole_number
from ociruntime.runtime.cgroups.cgroup_processes import tree, wait_for
from ociruntime.runtime.cgroups.control_files import failure, gone, read, write

_FREEZE_TIMEOUT = 10.0  # seconds


def frozen(directory: str, version: int) -> bool:
    """Return whether a cgroup is frozen or being frozen; False if the cgroup does not exist.

    Raises HostError if the state of the freezer cannot be read.
    """
    try:
        if version == 1:
            return _state_v1(directory) != "THAWED"
        return read(f"{directory}/cgroup.freeze").strip() == "1" or event(directory, "frozen") == 1
    except OSError as error:
        if gone(error):
            return False
        raise failure(f'read the freezer state of cgroup "{directory}"', error) from None


def freeze(directory: str, version: int) -> None:
    """Freeze every process in a cgroup, and wait until all are frozen.

    If freezing takes more than 10 s, thaws the processes and raises HostError.  Also raises
    HostError if the cgroup cannot be frozen at all.
    """
    file, on, off = _command(version)
    try:
        write(f"{directory}/{file}", on)
        if wait_for(lambda: _has_stopped(directory, version, on), _FREEZE_TIMEOUT):
            return
        write(f"{directory}/{file}", off)
    except OSError as error:
        raise failure(f'freeze cgroup "{directory}"', error) from None
    late = OSError(errno.ETIMEDOUT, "timed out")
    hint = "a process in an uninterruptible wait cannot be frozen"
    raise HostError(f'freeze cgroup "{directory}"', late, hint)


def thaw(directory: str, version: int) -> None:
    """Thaw every process in a cgroup; do nothing if the cgroup was removed.

    Raises HostError if the control file cannot be written.
    """
    file, _, off = _command(version)
    try:
        write(f"{directory}/{file}", off)
    except OSError as error:
        if not gone(error):
            raise failure(f'thaw cgroup "{directory}"', error) from None


def thaw_tree(directory: str) -> None:
    """Thaw a v1 cgroup and all cgroups below it, so that killed processes can exit.

    The container may have created and frozen one of the cgroups below.  Raises HostError if a
    cgroup cannot be listed or thawed.
    """
    for each in tree(directory):
        thaw(each, 1)


def frozen_above(directory: str, version: int) -> str:
    """Return the nearest frozen cgroup above ``directory``; "" if no ancestor is frozen.

    Processes below a frozen cgroup stay frozen until that cgroup is thawed.
    """
    file, on = ("freezer.self_freezing", "1") if version == 1 else ("cgroup.freeze", "1")
    while directory := directory.rpartition("/")[0]:
        try:
            if read(f"{directory}/{file}").strip() == on:
                return directory
        except OSError:
            return ""  # the hierarchy's root cgroup has no freezer file
    return ""


def event(directory: str, name: str, file: str = "cgroup.events") -> int:
    """Return the number after ``name`` in a flat-keyed control file; 0 if there is none.

    ``file`` is the file's name in the cgroup ``directory``.  Raises OSError if the file cannot be
    read.
    """
    for line in read(f"{directory}/{file}").splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return whole_number(value) or 0
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
    # A process being forked can escape the freezer until FROZEN is written again.
    write(f"{directory}/freezer.state", on)
    return False
