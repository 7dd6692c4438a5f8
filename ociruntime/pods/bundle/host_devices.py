"""Devices of the host for an app: look them up by path, on the host."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Any

from ociruntime.base.errors import PodError, reason
from ociruntime.base.linux import DEFAULT_DEVICES

Json = dict[str, Any]

DIRECTORY = "/dev"
MOST = 4096  # files in a directory of devices
# Directories and files of /dev that each container has for itself.
_OWN = ("pts", "shm", "fd", "mqueue", "console", "ptmx")


def check_source(source: str) -> None:
    """Check that the path is a device, or a directory of devices.  Raises PodError."""
    found(source, source, "rwm")


def found(source: str, target: str, access: str) -> list[Json]:
    """Return the devices at ``source``: that device, or all below that directory.

    Each is ``{"path", "type", "major", "minor", "fileMode", "uid", "gid", "access", "source"}``.
    Links on the way to ``source`` are followed, as for every path that a user names, those below a
    directory are not.  Raises PodError.
    """
    try:
        status = os.stat(source)
        if not stat.S_ISDIR(status.st_mode):
            if device := _device(source, target, status):
                return [device | {"access": access}]
            raise PodError(f"device {source}: neither a device nor a directory of devices")
        devices = [
            device | {"access": access}
            for path, status in _below(source)
            if (device := _device(path, target + path.removeprefix(source), status))
        ]
    except OSError as error:
        raise PodError(f"device {source}: {reason(error)}") from None
    if not devices:
        raise PodError(f"device {source}: no device in this directory")
    return devices


def all_devices() -> list[Json]:
    """Return the devices of the host, for a privileged app.  Raises PodError."""
    return [one for one in found(DIRECTORY, DIRECTORY, "rwm") if one["path"] not in DEFAULT_DEVICES]


def _below(top: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield paths and statuses of the files below a directory, without following links.

    Raises PodError if it has too many, like the root directory: a daemon waits for this.
    """
    waiting, count = [top], 0
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                count += 1
                if count > MOST:
                    raise PodError(f"device {top}: more than {MOST} files in this directory")
                if entry.name in _OWN and os.path.dirname(entry.path) == DIRECTORY:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    yield entry.path, entry.stat(follow_symlinks=False)


def _device(source: str, target: str, status: os.stat_result) -> Json | None:
    kinds = (("c", stat.S_ISCHR), ("b", stat.S_ISBLK))
    kind = next((letter for letter, test in kinds if test(status.st_mode)), "")
    if not kind:
        return None
    return {
        "source": source,
        "path": target,
        "type": kind,
        "major": os.major(status.st_rdev),
        "minor": os.minor(status.st_rdev),
        "fileMode": stat.S_IMODE(status.st_mode),
        "uid": status.st_uid,
        "gid": status.st_gid,
    }
