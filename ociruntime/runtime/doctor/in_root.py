"""Lookup of files in a root filesystem from outside; symbolic links are resolved inside it."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ociruntime.runtime.doctor.finding import Json

_MOST_LINKS = 40


def find_in_root(rootfs: str, path: str) -> str:
    """Return the host's path of the container's ``path``, "" if it does not exist."""
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
    """Return whether a mount covers ``path`` or one of its parents."""
    path = os.path.normpath(path)
    tops = (os.path.normpath("/" + each.lstrip("/")) for each in points)
    return any(path == top or path.startswith(f"{top}/") for top in tops)


def executable(file: str, user: Json, linux: Json) -> bool:
    """Return whether the file's mode lets the container's user execute it."""
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
    """Map a container's id to the host's; unchanged without a user namespace."""
    for each in mappings:
        if each["containerID"] <= number < each["containerID"] + each["size"]:
            return int(each["hostID"] + number - each["containerID"])
    return -1 if mappings else number
