"""Paths of a pod with users of its own: its root cannot enter directories of the host's root.

A runtime opens the root file system and what is mounted into it as the pod's root.  So all of that
is bound below a directory that everybody may enter, in the monitor's mount namespace alone: on the
host that directory is empty.
"""

from __future__ import annotations

import fcntl
import os

from ociruntime.base.errors import HostError
from ociruntime.base.trusted import make_directory
from ociruntime.pods.bundle.own_mounts import mount

PLACE = "/run/ocipod-users"
_MS_BIND, _MS_REC = 1 << 12, 1 << 14


def reachable(name: str, source: str) -> str:
    """Where ``source``, a file or a directory, is to be found as ``name``.  Raises HostError."""
    target = f"{PLACE}/{name}"
    try:
        _make_place()
        there, here = os.stat(source), _status(target)
        if here is not None and (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino):
            return target
        if os.path.isdir(source):
            os.makedirs(target, 0o711, exist_ok=True)
        elif here is None:
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise HostError(f"make {target}", error) from error
    mount(source, target, "", _MS_BIND | _MS_REC)
    return target


def _make_place() -> None:
    """Makes the directory, and puts an empty file system of our own there."""
    make_directory(PLACE, 0o711, "directory of pods with users of their own")
    fd = os.open(PLACE, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Apps are made side by side, and one mount is enough.
        fcntl.flock(fd, fcntl.LOCK_EX)
        if os.stat(PLACE).st_dev == os.stat(os.path.dirname(PLACE)).st_dev:
            mount("ocipod", PLACE, "tmpfs", 0, "mode=711,size=1m")
    finally:
        os.close(fd)


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None
