"""Reading and atomic writing of small files on the host."""

from __future__ import annotations

import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container


def read_file(path: str) -> bytes:
    """Return the contents of a file.  Raises OSError."""
    fd = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        # Read to the end: the kernel returns lists (mountinfo, cgroup.procs) in pieces below a
        # page.
        parts = []
        while part := posix.read(fd, 65536):
            parts.append(part)
        return b"".join(parts)
    finally:
        posix.close(fd)


def write_new(
    path: str,
    data: bytes,
    mode: int = 0o600,
    *,
    lasting: bool = False,
    within: int | None = None,
) -> None:
    """Create ``path``, which must not exist, with ``data``.  Raises OSError.

    With ``lasting`` the data are on the disk afterwards. ``within`` is the descriptor of the
    directory that a relative path starts at. A partly written file is removed.
    """
    flags = posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_CLOEXEC | posix.O_NOFOLLOW
    fd = posix.open(path, flags, mode, dir_fd=within)
    left = memoryview(data)
    try:
        while left:
            left = left[posix.write(fd, left) :]
        if lasting:
            posix.fsync(fd)
    except BaseException:  # a signal's exception too
        remove_file(path, within)
        raise
    finally:
        posix.close(fd)


def replace_file(
    path: str,
    data: bytes,
    mode: int = 0o600,
    *,
    lasting: bool = False,
    within: int | None = None,
    temporary: str = "",
) -> None:
    """Replace ``path`` atomically: readers see the old file or the complete new one.

    With ``lasting`` that includes readers after a power failure; without, the file may then be
    empty. Raises OSError. The temporary name has our pid, so that several may write at once; a
    single writer can have its own, which leaves one stale file at most.
    """
    name = path.rpartition("/")[2]
    temporary = temporary or f"{path.removesuffix(name)}.{name}.{posix.getpid()}"
    remove_file(temporary, within)
    write_new(temporary, data, mode, lasting=lasting, within=within)
    try:
        posix.rename(temporary, path, src_dir_fd=within, dst_dir_fd=within)
    except BaseException:
        remove_file(temporary, within)
        raise


def remove_file(path: str, within: int | None = None) -> None:
    """Remove ``path`` if it exists.  Raises OSError."""
    try:
        posix.unlink(path, dir_fd=within)
    except FileNotFoundError:
        pass


def sync_directory(path: str) -> None:
    """Flush a directory's entries to disk (fsync).  Raises OSError."""
    fd = posix.open(path, posix.O_RDONLY | posix.O_DIRECTORY | posix.O_CLOEXEC)
    try:
        posix.fsync(fd)
    finally:
        posix.close(fd)


def cgroup_tree(top: str, skipped: Container[int]) -> list[str]:
    """Return a cgroup's directory and all below it, parents first.

    A directory whose reading fails with an errno in ``skipped`` is left out; raises OSError for
    others.  Without recursion: a container may nest its cgroups as deep as it likes.
    """
    found = []
    pending = [top]
    while pending:
        place = pending.pop()
        try:
            # kernfs counts subdirectories in the link number as other file systems do.
            if posix.stat(place).st_nlink != 2:
                with posix.scandir(place) as entries:
                    pending += [each.path for each in entries if each.is_dir(follow_symlinks=False)]
        except OSError as error:
            if error.errno in skipped:
                continue
            raise
        found.append(place)
    return found


def exists(path: str) -> bool:
    """Return whether ``path`` exists; a dangling symbolic link counts."""
    try:
        posix.lstat(path)
    except OSError:
        return False
    return True
