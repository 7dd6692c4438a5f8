"""Check that only root and our own user can change or replace a directory, file or link.

The files in state directories, image stores and pods name hooks, cgroups and paths that a
privileged process uses: a user who can write to them gains that process's privileges.  Therefore a
directory is trusted only if it belongs to us or to root, no one else can write to it, and no one
else can replace it.  No one else can replace it if every directory and symbolic link on the path
belongs to us or to root.  World-writable directories on the path must also be sticky, like
``/tmp``.  (Directories on the path may be group-writable: that is the administrator's decision.)
sshd's StrictModes has similar requirements for a home directory.

After the check, no other user can replace the path before it is used.
"""

from __future__ import annotations

import errno
import posix

from ociruntime.base.errors import HostError

S_IFMT, S_IFDIR, S_IFLNK = (
    0o170000,
    0o040000,
    0o120000,
)  # duplicates linux.py, to save every command its import
GROUP_OR_OTHERS = 0o022
OTHERS = 0o002
STICKY = 0o1000
LINKS = 40  # MAXSYMLINKS, include/linux/namei.h
OVERFLOW_ID = 65534  # st_uid of an owner that the user namespace does not map
FIRST_USER_NAMESPACE = 0xEFFFFFFD  # PROC_USER_INIT_INO, include/linux/proc_ns.h
_HINT = "it must belong to root or to the calling user, and no one else may have write access"


class _Untrusted(PermissionError):
    """The error for a path that the kernel lets us use, but that other users could change."""


def check_directory(path: str, kind: str) -> bool:
    """Check that only root and our own user can change the directory at the absolute ``path``.

    Returns whether the directory exists.  Raises HostError if another user can change it; ``kind``,
    such as "image store", describes it in the error message.
    """
    try:
        status, real = _walk(path)
        if status is None:
            return False
        if problem := flaw(status):
            raise _refusal(real, problem)
    except OSError as error:
        raise _failure(path, kind, error) from None
    return True


def check_entry(path: str, kind: str) -> bool:
    """Check that only root and our own user can change the directory ``path``; refuse a link.

    The parent directory must have passed ``check_directory``.  Returns whether ``path`` exists.
    Raises HostError, also if ``path`` is not a directory.
    """
    try:
        if problem := flaw(posix.lstat(path)):
            raise _refusal(path, problem)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _failure(path, kind, error) from None
    return True


def check_file(path: str, kind: str) -> None:
    """Check that the file ``path``, if it exists, is not a link and belongs to us or to root.

    Raises HostError.
    """
    try:
        status = posix.lstat(path)
        if status.st_mode & S_IFMT == S_IFLNK:
            raise _Untrusted(errno.EACCES, f'"{path}" is a symbolic link')
        if not _is_ours(status.st_uid):
            raise _Untrusted(errno.EACCES, f'"{path}" belongs to uid {status.st_uid}')
    except FileNotFoundError:
        return
    except OSError as error:
        raise _failure(path, kind, error) from None


def check_link(path: str, kind: str) -> None:
    """Check that only root and our own user can create or replace the symbolic link ``path``.

    Raises HostError.
    """
    check_parent(path, kind)
    try:
        owner = posix.lstat(path).st_uid
        if not _is_known(owner):
            raise _Untrusted(errno.EACCES, f'"{path}" belongs to uid {owner}')
    except OSError as error:
        raise _failure(path, kind, error) from None


def check_parent(path: str, kind: str) -> None:
    """Check that no other user can replace the file at the absolute ``path``.

    The directory of the file may be world-writable if it is sticky.  Raises HostError if another
    user can replace the file.
    """
    parent = path.rpartition("/")[0]
    try:
        status, real = _walk(parent)
        if status is not None and (problem := _flaw_on_the_way(status)):
            raise _refusal(real, problem)
    except OSError as error:
        raise _failure(parent, kind, error) from None


def make_directory(path: str, mode: int, kind: str) -> bool:
    """Create the directory at the absolute ``path``, with missing parents, unless it exists.

    Returns whether this call created it.  Raises HostError if it cannot be created, or if another
    user can change it.
    """
    if check_directory(path, kind):
        return False
    try:
        made = _make(path, mode)
    except OSError as error:
        raise _failure(path, kind, error) from None
    check_directory(path, kind)  # in a sticky directory, another user may have created it before us
    return made


def flaw(status: posix.stat_result) -> str:
    """Return the reason why a directory with this ``status`` cannot be trusted; "" if it can."""
    if status.st_mode & S_IFMT != S_IFDIR:
        return "not a directory"
    if not _is_ours(status.st_uid):
        return f"belongs to uid {status.st_uid}"
    if status.st_mode & GROUP_OR_OTHERS:
        return f"is writable by others (mode {status.st_mode & 0o7777:04o})"
    return ""


def owner_flaw(status: posix.stat_result) -> str:
    """Return "belongs to uid N" if another user owns the file with this status, else ""."""
    return "" if _is_known(status.st_uid) else f"belongs to uid {status.st_uid}"


def in_user_namespace() -> bool:
    """Return whether this process is in a user namespace other than the host's initial one.

    Compares the namespace's inode number, because a nested namespace may have the same id map as
    the initial one.
    """
    try:
        return posix.stat("/proc/self/ns/user").st_ino != FIRST_USER_NAMESPACE
    except OSError:
        return False


def _walk(path: str) -> tuple[posix.stat_result | None, str]:
    """Resolve ``path``, and check each directory and link on it; return (status, resolved path).

    If a component does not exist, the status is None, and the resolved path ends with that
    component.  Raises OSError if another user could change the path.
    """
    here, status = "", posix.lstat("/")
    pending = _parts(path)
    links = 0
    while pending:
        if problem := _flaw_on_the_way(status):
            raise _refusal(here or "/", problem)
        part = pending.pop()
        if part == "..":
            here = here.rpartition("/")[0]
            status = posix.lstat(here or "/")
            continue
        try:
            entry = posix.lstat(f"{here}/{part}")
        except FileNotFoundError:
            return None, f"{here}/{part}"
        if entry.st_mode & S_IFMT != S_IFLNK:
            here, status = f"{here}/{part}", entry
            continue
        if not _is_known(entry.st_uid):
            raise _refusal(f"{here}/{part}", f"belongs to uid {entry.st_uid}")
        links += 1
        if links > LINKS:
            raise OSError(errno.ELOOP, posix.strerror(errno.ELOOP))
        target = posix.readlink(f"{here}/{part}")
        if target.startswith("/"):
            here, status = "", posix.lstat("/")
        pending += _parts(target)
    return status, here or "/"


def _parts(path: str) -> list[str]:
    """Return the components of a path, last one first."""
    return [part for part in path.split("/")[::-1] if part not in ("", ".")]


def _flaw_on_the_way(status: posix.stat_result) -> str:
    if status.st_mode & S_IFMT != S_IFDIR:
        return "not a directory"
    if not _is_known(status.st_uid):
        return f"belongs to uid {status.st_uid}"
    if status.st_mode & OTHERS and not status.st_mode & STICKY:
        return f"is world-writable without the sticky bit (mode {status.st_mode & 0o7777:04o})"
    return ""


def _is_ours(uid: int) -> bool:
    return uid in (0, posix.geteuid())


def _is_known(uid: int) -> bool:
    """Return whether ``uid`` is root's uid or our own.

    In a user namespace, also accepts 65534, which stands for the host's root there.
    """
    return _is_ours(uid) or (uid == OVERFLOW_ID and in_user_namespace())


def _make(path: str, mode: int) -> bool:
    try:
        posix.mkdir(path, mode)
    except FileExistsError:
        return False
    except FileNotFoundError:
        _make(path.rpartition("/")[0] or "/", mode)
        return _make(path, mode)
    return True


def _refusal(path: str, problem: str) -> OSError:
    if problem == "not a directory":
        return NotADirectoryError(errno.ENOTDIR, posix.strerror(errno.ENOTDIR))
    return _Untrusted(errno.EACCES, f'"{path}" {problem}')


def _failure(path: str, kind: str, error: OSError) -> HostError:
    hint = _HINT if isinstance(error, _Untrusted) else ""
    return HostError(f'use the {kind} "{path}"', error, hint)
