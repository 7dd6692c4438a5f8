"""Find the host devices that an app may use, by their paths."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Any

from ociruntime.base.errors import PodError, reason
from ociruntime.base.linux import DEFAULT_DEVICES

Json = dict[str, Any]

DIRECTORY = "/dev"
MOST = 4096  # maximum number of files in a directory of devices
# Names in /dev of which each container has its own instance.
_OWN = ("pts", "shm", "fd", "mqueue", "console", "ptmx")


def check_source(source: str) -> None:
    """Raise PodError unless the host path ``source`` is a device or a directory of devices."""
    find_devices(source, source, "rwm")


def find_devices(source: str, target: str, access: str) -> list[Json]:
    """Return the device ``source``, or all devices below the directory ``source``, as a list.

    A device is ``{"path", "type", "major", "minor", "fileMode", "uid", "gid", "access",
    "source"}``; its ``path`` in the container is ``target``, or a path below ``target``.
    ``access`` is a combination of "r", "w" and "m" (mknod).  ``source`` may be a symbolic link;
    links below a directory are skipped.  Raises PodError if there is no device, or if ``source``
    cannot be read or contains more than MOST files.
    """
    try:
        status = os.stat(source)
        if not stat.S_ISDIR(status.st_mode):
            if device := _device(source, target, status):
                return [device | {"access": access}]
            raise PodError(f'use device "{source}": neither a device nor a directory of devices')
        devices = [
            device | {"access": access}
            for path, status in _below(source)
            if (device := _device(path, target + path.removeprefix(source), status))
        ]
    except OSError as error:
        raise PodError(f'use device "{source}": {reason(error)}') from None
    if not devices:
        raise PodError(f'use device "{source}": no device in this directory')
    return devices


def all_devices() -> list[Json]:
    """Return the host's devices in /dev for a privileged app, in the form of ``find_devices``.

    Leaves out the devices that every container has, such as /dev/null.  Raises PodError if /dev
    cannot be read.
    """
    devices = find_devices(DIRECTORY, DIRECTORY, "rwm")
    return [device for device in devices if device["path"] not in DEFAULT_DEVICES]


def _below(top: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield (path, stat result) of each file below the directory ``top``, not following links.

    Skips entries of /dev such as /dev/pts, because every container has its own.  Raises PodError if
    there are more than MOST files: a directory such as "/" must not block the caller for long.
    """
    directories, count = [top], 0
    while directories:
        with os.scandir(directories.pop()) as entries:
            for entry in sorted(entries, key=lambda file: file.name):
                count += 1
                if count > MOST:
                    raise PodError(f'use device "{top}": more than {MOST} files in this directory')
                if entry.name in _OWN and os.path.dirname(entry.path) == DIRECTORY:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    directories.append(entry.path)
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
