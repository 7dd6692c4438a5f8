"""Creation of mount points in a root file system.

No symbolic link is followed: a target behind one must already exist.
"""

from __future__ import annotations

import os

from ociruntime.base.errors import HostError

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def make_mount_point(root: str, target: str, *, is_file: bool) -> None:
    """Create ``target``, a clean absolute path in ``root``, if missing.  Raises HostError."""
    *parents, name = target.strip("/").split("/")
    try:
        place = os.open(root, DIRECTORY & ~os.O_NOFOLLOW)
        try:
            for parent in parents:
                _make_directory(place, parent)
                inner = os.open(parent, DIRECTORY, dir_fd=place)
                os.close(place)
                place = inner
            if is_file:
                _make_file(place, name)
            else:
                _make_directory(place, name)
        finally:
            os.close(place)
    except NotADirectoryError:
        return  # a symbolic link on the way
    except OSError as error:
        raise HostError(f"make the mount point {root}{target}", error) from None


def _make_directory(place: int, name: str) -> None:
    try:
        os.mkdir(name, 0o755, dir_fd=place)
    except FileExistsError:
        pass


def _make_file(place: int, name: str) -> None:
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        os.close(os.open(name, flags, 0o644, dir_fd=place))
    except FileExistsError:
        pass
