"""Make host paths accessible to a pod with a user namespace.

An OCI runtime opens the root filesystem and the sources of mounts as the pod's root user, who
cannot enter directories of the host's root.  So they are bind-mounted below a directory that
everybody may enter.  This happens in the monitor's mount namespace; on the host the directory stays
empty.
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
    """Bind-mount ``source``, a file or a directory, as ``name``; its new path.

    Raises HostError.
    """
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
    """Create the directory and mount a private tmpfs there."""
    make_directory(PLACE, 0o711, "directory of pods with user namespaces")
    fd = os.open(PLACE, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Apps are created concurrently, and must not mount it twice.
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
