"""Open a file inside a root directory, as a process that is chrooted there would open it."""

from __future__ import annotations

import os
import stat
from errno import EINVAL, ELOOP

_MOST_LINKS = 40
_MOST_STEPS = 1024  # limit on path components: link targets can go down and up again and again


def open_inside(root: int, path: str, flags: int) -> int:
    """Open ``path`` as if the directory with the descriptor ``root`` were "/"; return a descriptor.

    Resolves symbolic links within ``root``; ``..`` never leaves it.  Without O_PATH, only regular
    files and directories can be opened.  Raises OSError.
    """
    pending = _parts(path)
    opened: list[int] = []  # the directories from ``root`` down to the current one
    links = steps = 0
    try:
        while pending:
            part = pending.pop(0)
            steps += 1
            if steps > _MOST_STEPS:
                raise OSError(ELOOP, os.strerror(ELOOP), path)
            if part == "..":
                if opened:
                    os.close(opened.pop())
                continue
            here = opened[-1] if opened else root
            step = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
            opened.append(step)
            if _is_link(step):
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(ELOOP, os.strerror(ELOOP), path)
                target = os.readlink("", dir_fd=step)
                os.close(opened.pop())
                if target.startswith("/"):
                    _close(opened)
                pending = _parts(target) + pending
        here = opened[-1] if opened else root
        if flags & os.O_PATH:
            return os.dup(here)
        return _reopen(here, flags)
    finally:
        _close(opened)


def _reopen(fd: int, flags: int) -> int:
    """Reopen an O_PATH descriptor with ``flags``; refuse devices and FIFOs.  Raises OSError."""
    mode = os.fstat(fd).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(EINVAL, os.strerror(EINVAL))
    return os.open(f"/proc/self/fd/{fd}", flags | os.O_CLOEXEC)


def _is_link(fd: int) -> bool:
    return stat.S_ISLNK(os.fstat(fd).st_mode)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _close(fds: list[int]) -> None:
    while fds:
        os.close(fds.pop())
