"""Remove directory trees with hostile content, such as files that containers have written.

Symbolic links are never followed, and other filesystems are never entered.  Names may be any bytes,
and the tree may be deeper than the number of descriptors that a process can open.
"""

from __future__ import annotations

import os
from errno import ENOTEMPTY, EXDEV

from ociruntime.pods.store.lock import open_directory
from ociruntime.pods.store.pod import Pod

_DEEPEST = 100  # maximum number of directories open at a time
_AGAIN = 100  # retries for a directory that is filled while it is being removed


def remove_tree(parent: int, name: str) -> None:
    """Remove the file or directory tree ``name`` in the directory ``parent`` (a descriptor).

    Does nothing if ``name`` does not exist.  Raises OSError at the first entry that cannot be
    removed; other entries may have been removed by then.
    """
    pending = [name.encode("utf-8", "surrogateescape")]
    device = os.fstat(parent).st_dev
    while pending:
        top = pending.pop()
        if _unlink(top, parent):
            pending += _remove_directory(parent, top, device)


def discard(pod: Pod) -> None:
    """Remove a pod whose creation failed, and close it; ignore errors."""
    phase, _, name = pod.path().rpartition("/")
    try:
        fd = open_directory(phase)
        try:
            remove_tree(fd, name)
        finally:
            os.close(fd)
    except OSError:
        pass  # the rest counts as an aborted prepare, which gc removes
    pod.close()


def _remove_directory(parent: int, top: bytes, device: int) -> list[bytes]:
    """Remove the directory ``top`` in ``parent``, down to a depth of _DEEPEST levels.

    Deeper directories are moved to ``parent``; returns their new names, for the caller to remove.
    ``device`` is the device number (st_dev) of the only filesystem to remove files from.
    """
    moved: list[bytes] = []
    again = _AGAIN
    stack: list[tuple[int, bytes, list[bytes]]] = []  # descriptor, name, remaining entries
    try:
        stack.append(_open(top, parent, device))
        while stack:
            fd, name, entries = stack[-1]
            if not entries:
                try:
                    os.rmdir(name, dir_fd=stack[-2][0] if len(stack) > 1 else parent)
                except OSError as error:
                    again -= 1
                    if error.errno != ENOTEMPTY or again < 0:
                        raise
                    # ENOTEMPTY: another process has created a file here meanwhile.
                    entries += _list(fd)
                    continue
                stack.pop()
                os.close(fd)
                continue
            entry = entries.pop()
            if not _unlink(entry, fd):
                continue
            if len(stack) < _DEEPEST:
                stack.append(_open(entry, fd, device))
                continue
            # Name it by its inode number: unique even if a killed attempt has left such names.
            number = os.stat(entry, dir_fd=fd, follow_symlinks=False).st_ino
            moved.append(b".deep-%d" % number)
            os.rename(entry, moved[-1], src_dir_fd=fd, dst_dir_fd=parent)
    finally:
        for fd, _, _ in stack:
            os.close(fd)
    return moved


def _unlink(name: bytes, parent: int) -> bool:
    """Remove the file ``name`` in ``parent``; if it is a directory, do nothing and return True."""
    try:
        os.unlink(name, dir_fd=parent)
    except IsADirectoryError:
        return True
    except FileNotFoundError:
        pass
    return False


def _open(name: bytes, parent: int, device: int) -> tuple[int, bytes, list[bytes]]:
    fd = open_directory(name, parent)
    try:
        if os.fstat(fd).st_dev != device:
            raise OSError(EXDEV, "another filesystem is mounted there", name)
        return fd, name, _list(fd)
    except BaseException:
        os.close(fd)
        raise


def _list(fd: int) -> list[bytes]:
    # By path and not by descriptor: only then does listdir() return names as bytes.
    return os.listdir(b"/proc/self/fd/%d" % fd)
