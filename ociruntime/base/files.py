"""Read small files of the host, write them atomically, and walk a cgroup tree."""

from __future__ import annotations

import posix
from collections.abc import Container, Iterator

from ociruntime.base.errors import HostError

_DIRECTORY = posix.O_RDONLY | posix.O_DIRECTORY | posix.O_CLOEXEC
# Errors of open(2) without support for O_TMPFILE: EISDIR (before Linux 3.11), EINVAL, EOPNOTSUPP.
_NO_TMPFILE = {21, 22, 95}
_MOST_DIGITS = 20  # decimal digits of a 64-bit number
_LONG_PATH = 3500  # characters: PATH_MAX is 4096 bytes, and the name of a control file follows


def read_file(path: str) -> bytes:
    """Return the whole content of a file, which may be in /proc or /sys.  Raises OSError."""
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


def statvfs(place: str | int) -> posix.statvfs_result:
    """Query the filesystem that contains ``place``, a path or an open file.  Raises OSError.

    Retries the call if a signal interrupts it.  Python does so for most calls (PEP 475), but not
    for this one.
    """
    while True:
        try:
            return posix.statvfs(place)
        except InterruptedError:
            continue


def whole_number(text: str) -> int | None:
    """Parse a decimal number as the kernel writes it, up to 64 bits; return None if malformed.

    ``str.isdigit`` alone is not sufficient: it accepts digits that ``int`` refuses, such as a
    superscript.
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


def write_new(
    path: str,
    data: bytes,
    mode: int = 0o600,
    *,
    lasting: bool = False,
    within: int | None = None,
) -> None:
    """Create the file ``path`` with the content ``data``; the file must not exist yet.

    With ``lasting``, the data survives a power failure.  A relative path is resolved in the
    directory with the descriptor ``within``.  If writing fails, removes the partial file.  Raises
    OSError, also if the file exists.
    """
    flags = posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_CLOEXEC | posix.O_NOFOLLOW
    fd = posix.open(path, flags, mode, dir_fd=within)
    try:
        write_all(fd, data)
        if lasting:
            posix.fsync(fd)
    except BaseException:  # also KeyboardInterrupt
        remove_file(path, within)
        raise
    finally:
        posix.close(fd)


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Write all of ``data`` to the blocking descriptor ``fd``, continuing after short writes.

    Raises OSError.
    """
    remaining = memoryview(data)
    while remaining:
        remaining = remaining[posix.write(fd, remaining) :]


def memory_file(name: str, data: bytes, flags: int = posix.MFD_CLOEXEC) -> int:
    """Return a descriptor of a memfd that contains ``data``, positioned at its start.

    Without MFD_CLOEXEC in ``flags``, the descriptor stays open after execve(2), and its path in
    ``/proc/self/fd`` stays valid.  Raises OSError.
    """
    fd = posix.memfd_create(name, flags)
    try:
        write_all(fd, data)
        posix.lseek(fd, 0, 0)
    except BaseException:
        posix.close(fd)
        raise
    return fd


def replace_file(
    path: str,
    data: bytes,
    mode: int = 0o600,
    *,
    lasting: bool = False,
    within: int | None = None,
    temporary: str = "",
) -> None:
    """Replace the file ``path`` atomically: readers see either the old or the complete new content.

    With ``lasting``, this is also true after a power failure; otherwise a power failure may leave
    an empty file.  The temporary file's name contains our pid, so that several processes can write
    at once.  If there is only one writer, it can pass a fixed name as ``temporary``, so that a
    crash leaves at most one stale file.  A relative path is resolved in the directory with the
    descriptor ``within``.  Raises OSError.
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


def publish_file(path: str, data: bytes, mode: int = 0o644) -> None:
    """Create the file ``path`` complete with its content, using O_TMPFILE and linkat(2).

    Removes an existing file of that name first.  The temporary file has no name, so that no stale
    file remains in the directory if this process is killed.  If the filesystem does not support
    O_TMPFILE, or if other processes keep creating the file, calls ``replace_file`` instead.  Raises
    OSError.
    """
    directory = path.rpartition("/")[0] or "."
    try:
        fd = posix.open(directory, posix.O_WRONLY | posix.O_TMPFILE | posix.O_CLOEXEC, mode)
    except OSError as error:
        if error.errno not in _NO_TMPFILE:
            raise
        replace_file(path, data, mode)
        return
    try:
        write_all(fd, data)
        for _ in range(2):
            remove_file(path)
            try:
                # With src_dir_fd, linkat(2) follows the link in procfs (AT_SYMLINK_FOLLOW).
                posix.link(f"/proc/self/fd/{fd}", path, src_dir_fd=fd)
                return
            except FileExistsError:
                continue  # another process has created the file meanwhile
    finally:
        posix.close(fd)
    replace_file(path, data, mode)


def remove_file(path: str, within: int | None = None) -> None:
    """Remove ``path`` if it exists.  Raises OSError.

    A relative path is resolved in the directory with the descriptor ``within``.
    """
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


def cgroup_tree(top: str, skipped: Container[int]) -> Iterator[str]:
    """Yield the paths of all cgroups below ``top``, children first, and ``top`` itself last.

    Each path is valid only until the next path is requested.  Skips a directory that cannot be
    opened if ``skipped`` contains the errno; otherwise raises OSError.

    A container may nest its cgroups to any depth, with names of any length.  Therefore this
    generator keeps a single descriptor, and returns to a parent through ``..`` (a cgroup cannot be
    moved).  If the full path is too long for the kernel, it yields a path relative to that
    descriptor.
    """
    try:
        # In kernfs, as in other filesystems, st_nlink of a directory counts its subdirectories.
        if posix.stat(top).st_nlink == 2:
            yield top
            return
        here = posix.open(top, _DIRECTORY)
    except OSError as error:
        if error.errno in skipped:
            return
        raise
    trail: list[str] = []  # the names from ``top`` to ``here``
    length = len(top)
    try:
        pending = [
            _subdirectories(here)
        ]  # for each directory in ``trail``, its children yet to visit
        while True:
            if pending[-1]:
                name = pending[-1].pop()
                try:
                    below = posix.open(name, _DIRECTORY | posix.O_NOFOLLOW, dir_fd=here)
                except OSError as error:
                    if error.errno in skipped:
                        continue
                    raise
                posix.close(here)
                here = below
                trail.append(name)
                length += 1 + len(name)
                pending.append(_subdirectories(here))
                continue
            pending.pop()
            if not trail:
                break
            name = trail.pop()
            length -= 1 + len(name)
            above = posix.open("..", _DIRECTORY, dir_fd=here)
            posix.close(here)
            here = above
            if length + len(name) < _LONG_PATH:
                yield "/".join((top, *trail, name))
            else:
                yield f"/proc/self/fd/{here}/{name}"
    finally:
        posix.close(here)
    yield top


def _subdirectories(directory: int) -> list[str]:
    if posix.fstat(directory).st_nlink == 2:
        return []
    with posix.scandir(directory) as entries:
        return [each.name for each in entries if each.is_dir(follow_symlinks=False)]


def may_access(path: str, mode: int) -> bool:
    """Return whether this process's effective user and group may access ``path``.

    ``mode`` is a mode of access(2), such as W_OK.
    """
    if posix.access(path, mode, effective_ids=True):
        return True
    # A filter that does not know faccessat2(2) fails it with EPERM; access(2) asks for real ids.
    is_same = posix.getuid() == posix.geteuid() and posix.getgid() == posix.getegid()
    return is_same and posix.access(path, mode)


def mode_of(path: str) -> int:
    """Return the type and permissions of the file at ``path`` (st_mode); 0 if it does not exist.

    Raises HostError for any other error of stat(2), such as EACCES.
    """
    try:
        return posix.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except OSError as error:
        raise HostError(f'stat "{path}"', error) from None


def is_there(path: str) -> bool:
    """Return whether ``path`` exists, following symbolic links.

    Raises HostError if that cannot be determined.
    """
    return mode_of(path) != 0


def exists(path: str) -> bool:
    """Return whether ``path`` exists, even if it is a dangling symbolic link.

    Returns False if that cannot be determined; ``is_there`` raises an error instead.
    """
    try:
        posix.lstat(path)
    except OSError:
        return False
    return True
