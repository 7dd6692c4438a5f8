"""Removing a directory tree that programs inside containers have filled as they liked.

No symbolic link is followed and no other file system entered, names may be any bytes, and a tree
may be deeper than there are descriptors.
"""

from __future__ import annotations

import posix

from ociruntime.pods.store.lock import open_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.pods.store.pod import Pod

EXDEV = 18
ENOTEMPTY = 39
_DEEPEST = 100  # directories that are open at a time
_AGAIN = 100  # how often a directory may turn out to have been filled meanwhile


def remove_tree(parent: int, name: str) -> None:
    """Removes ``name`` of the directory ``parent``, whatever it is, if it is there.

    Raises OSError for what cannot be removed; the rest of the tree may be gone by then.
    """
    pending = [name.encode("utf-8", "surrogateescape")]
    device = posix.fstat(parent).st_dev
    while pending:
        top = pending.pop()
        if _unlink(top, parent):
            pending += _remove_directory(parent, top, device)


def discard(pod: Pod) -> None:
    """Removes a pod that could not be made, whose lock we hold, and gives the lock up."""
    phase, _, name = pod.path().rpartition("/")
    try:
        fd = open_directory(phase)
        try:
            remove_tree(fd, name)
        finally:
            posix.close(fd)
    except OSError:
        pass  # what stays is an aborted prepare, which gc removes
    pod.close()


def _remove_directory(parent: int, top: bytes, device: int) -> list[bytes]:
    """Removes it; what is too deep in it is moved to ``parent``, and its names are returned."""
    moved: list[bytes] = []
    again = _AGAIN
    stack: list[tuple[int, bytes, list[bytes]]] = []  # descriptor, its name, what is in it
    try:
        stack.append(_open(top, parent, device))
        while stack:
            fd, name, entries = stack[-1]
            if not entries:
                try:
                    posix.rmdir(name, dir_fd=stack[-2][0] if len(stack) > 1 else parent)
                except OSError as error:
                    again -= 1
                    if error.errno != ENOTEMPTY or again < 0:
                        raise
                    # Somebody was still writing into it.
                    entries += _list(fd)
                    continue
                stack.pop()
                posix.close(fd)
                continue
            entry = entries.pop()
            if not _unlink(entry, fd):
                continue
            if len(stack) < _DEEPEST:
                stack.append(_open(entry, fd, device))
                continue
            # The inode's number is nobody else's, even after an attempt that was killed.
            number = posix.stat(entry, dir_fd=fd, follow_symlinks=False).st_ino
            moved.append(b".deep-%d" % number)
            posix.rename(entry, moved[-1], src_dir_fd=fd, dst_dir_fd=parent)
    finally:
        for fd, _, _ in stack:
            posix.close(fd)
    return moved


def _unlink(name: bytes, parent: int) -> bool:
    """True if it is a directory, and still there."""
    try:
        posix.unlink(name, dir_fd=parent)
    except IsADirectoryError:
        return True
    except FileNotFoundError:
        pass
    return False


def _open(name: bytes, parent: int, device: int) -> tuple[int, bytes, list[bytes]]:
    fd = open_directory(name, parent)
    try:
        if posix.fstat(fd).st_dev != device:
            raise OSError(EXDEV, "another file system is mounted there", name)
        return fd, name, _list(fd)
    except BaseException:
        posix.close(fd)
        raise


def _list(fd: int) -> list[bytes]:
    # By way of proc, for names as bytes.
    return posix.listdir(b"/proc/self/fd/%d" % fd)
