"""Finding a file in a root filesystem that nobody has entered: links lead no further than it."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ociruntime.runtime.doctor.finding import Json

_MOST_LINKS = 40


def find_in_root(rootfs: str, path: str) -> str:
    """Where on the host the container's ``path`` lies, empty if it is not there."""
    rest, done, links = path.split("/")[::-1], "", 0
    while rest:
        part = rest.pop()
        if part in ("", "."):
            continue
        if part == "..":
            done = done.rpartition("/")[0]
            continue
        try:
            target = os.readlink(f"{rootfs}{done}/{part}")
        except OSError:  # no link
            done += f"/{part}"
            continue
        links += 1
        if links > _MOST_LINKS:
            return ""
        if target.startswith("/"):
            done = ""
        rest += target.split("/")[::-1]
    found = rootfs + done
    return found if os.path.lexists(found) else ""


def covered(path: str, points: Sequence[str]) -> bool:
    """Whether something is mounted over ``path`` or over a directory that it lies in."""
    path = os.path.normpath(path)
    tops = (os.path.normpath("/" + each.lstrip("/")) for each in points)
    return any(path == top or path.startswith(f"{top}/") for top in tops)


def executable(file: str, user: Json, linux: Json) -> bool:
    """By its mode alone, for the user of the container."""
    node = os.stat(file, follow_symlinks=False)
    if not stat.S_ISREG(node.st_mode):
        return False
    if user["uid"] == 0:
        return bool(node.st_mode & 0o111)
    groups = [user["gid"], *user.get("additionalGids", [])]
    if node.st_uid == _outside(user["uid"], linux.get("uidMappings", [])):
        return bool(node.st_mode & stat.S_IXUSR)
    if node.st_gid in [_outside(each, linux.get("gidMappings", [])) for each in groups]:
        return bool(node.st_mode & stat.S_IXGRP)
    return bool(node.st_mode & stat.S_IXOTH)


def _outside(number: int, mappings: Sequence[Json]) -> int:
    """The host's number of a container's id; the same without a user namespace."""
    for each in mappings:
        if each["containerID"] <= number < each["containerID"] + each["size"]:
            return int(each["hostID"] + number - each["containerID"])
    return -1 if mappings else number
