"""The state directories, one per container: create, lock, find and remove them.

A state directory stores only facts that the runtime cannot read from the kernel.

    ROOT/ID/             a container; one rename publishes it when it is complete
        state.json       facts fixed at creation, written once
        cgroup.json      the container's cgroups, written before they are created
        config.json      the bundle's configuration at creation
        entry            the data of the fast path (csrc/fast_path/), written once
        notify/          the container's socket for sd_notify(3), if it has one
        resources.json   the container's limits since the last `update`, if any
        mounts.json      mounts added by `mounts add`, written before they are attached
        root-mount.json  the mount of the root in the host's mount namespace, written before it
                         is attached
        rdt.json         the container's Intel RDT groups, written before they are created
        network.json     network devices being moved, for the cleanup after a killed `create`
        start            the start gate, a socket; exists until the program runs
    ROOT/.creating-ID/   the directory before the rename that publishes it
    ROOT/.deleting-ID/   the directory after the rename that hides it
    ROOT/.seccomp/       compiled filters of all containers (seccomp_cache.py)

A process that changes a directory locks it (flock(2) on the directory itself); the kernel releases
the lock when the process exits.  An unlocked ``.creating-`` directory is stale, left by a killed
``create``; the next command that finds it removes it.
"""

from __future__ import annotations

import posix
from collections.abc import Callable

from ociruntime.base.errors import ContainerError, ContainerExists, HostError, NoSuchContainer
from ociruntime.base.files import exists
from ociruntime.base.locks import lock_within
from ociruntime.base.trusted_directories import check_directory, check_entry

STATE_DIRECTORY = "state directory"  # name in error messages
CREATING = ".creating-"
DELETING = ".deleting-"
ROOT_MOUNT = "root-mount.json"
FILTERS = ".seccomp"
LOCK_SECONDS = 20.0
# A child that a killed command has just cloned shares the command's lock until it executes the
# executor.
DYING_SECONDS = 0.2

CLASH = {17, 39}  # EEXIST, ENOTEMPTY: the new name is in use


def container_ids(root: str) -> list[str]:
    """Return the sorted ids of all containers, except those being created or deleted.

    Raises HostError if the state root is unreadable, or if other users can change it.
    """
    check_directory(root, STATE_DIRECTORY)
    try:
        names = posix.listdir(root)
    except OSError as error:
        raise HostError(f'read state root "{root}"', error) from None
    return sorted(name for name in names if not name.startswith("."))


def find_directory(root: str, container_id: str) -> str:
    """Return the path of a container's state directory.

    Raises NoSuchContainer if it does not exist, HostError if it is unreadable or other users can
    change it.
    """
    path = f"{root}/{container_id}"
    if not (check_directory(root, STATE_DIRECTORY) and check_entry(path, STATE_DIRECTORY)):
        raise NoSuchContainer(container_id)
    return path


def stale_directories(root: str, container_id: str) -> list[str]:
    """Return the directories left by an interrupted ``create`` or ``delete`` of this container id.

    Raises HostError if the state root is unreadable or other users can change the directories.
    """
    check_directory(root, STATE_DIRECTORY)
    paths = [f"{root}/{prefix}{container_id}" for prefix in (CREATING, DELETING)]
    return [path for path in paths if check_entry(path, STATE_DIRECTORY)]


class Lock:
    """An exclusive lock on a directory, held until ``release``.

    ``acquire`` waits up to ``seconds`` for the lock.  It returns None if the directory is missing,
    or was removed or replaced before it was locked.  It raises ContainerError if another process
    still holds the lock, HostError if the directory cannot be opened or locked.
    """

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    @staticmethod
    def acquire(path: str, seconds: float = LOCK_SECONDS) -> Lock | None:
        try:
            fd = posix.open(path, posix.O_RDONLY | posix.O_DIRECTORY | posix.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise HostError(f'open state directory "{path}"', error) from None
        lock = Lock(fd)
        try:
            if not lock_within(fd, seconds):
                raise ContainerError(
                    f'lock "{path}": in use by another command',
                    "wait for that command and try again",
                )
            if _is_same(fd, path):
                return lock
        except OSError as error:
            lock.release()
            raise HostError(f'lock "{path}"', error) from None
        except BaseException:
            lock.release()
            raise
        lock.release()
        return None

    def release(self) -> None:
        """Release the lock."""
        if self.fd >= 0:
            posix.close(self.fd)
            self.fd = -1


def _is_same(fd: int, path: str) -> bool:
    """Return whether ``path`` still refers to the open directory ``fd``."""
    try:
        named = posix.stat(path)
    except FileNotFoundError:
        return False
    opened = posix.fstat(fd)
    return (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)


def begin_creation(root: str, container_id: str, clear: Callable[[str], None]) -> tuple[str, Lock]:
    """Create and lock the ``.creating-`` directory of a new container; return (path, lock).

    If a killed ``create`` has left a directory for the same id, calls ``clear(path)`` to undo the
    changes recorded there, and removes the directory.  The caller must have checked the state root.
    Raises ContainerExists if the id is in use, ContainerError if another command is creating a
    container with this id, HostError if the directory cannot be created or locked.
    """
    path = f"{root}/{CREATING}{container_id}"
    while True:
        if exists(f"{root}/{container_id}"):
            raise ContainerExists(container_id)
        try:
            posix.mkdir(path, 0o700)
        except FileExistsError:
            if check_entry(path, STATE_DIRECTORY):
                clear_stale(path, container_id, clear)
            continue
        except OSError as error:
            raise HostError(f'create state directory "{path}"', error) from None
        try:
            lock = Lock.acquire(path, 0)
        except HostError:
            _remove_empty(path)
            raise
        if lock is None:
            continue
        # Check again: another `create` may have renamed its directory between the check and mkdir.
        if exists(f"{root}/{container_id}"):
            _remove_empty(path)
            lock.release()
            raise ContainerExists(container_id)
        return path, lock


def _remove_empty(path: str) -> None:
    """Remove a directory that was just created, unless another command has put files into it."""
    try:
        posix.rmdir(path)
    except OSError:
        pass  # the next command for this id removes it


def clear_stale(path: str, container_id: str, clear: Callable[[str], None]) -> None:
    """Call ``clear`` with the stale state directory ``path``, then remove the directory.

    Raises ContainerError if another command has locked the directory.  It does not raise
    ContainerExists, because that command may be a `create` that still fails.
    """
    try:
        lock = Lock.acquire(path, DYING_SECONDS)
    except ContainerError:
        raise ContainerError(
            f'container "{container_id}" is being created or deleted by another command',
            "wait for that command and try again",
        ) from None
    if lock is None:
        return
    try:
        clear(path)
        remove_directory(path)
    finally:
        lock.release()


def commit_creation(path: str, root: str, container_id: str) -> str:
    """Publish a new container by renaming its ``.creating-`` directory; return the new path.

    Raises ContainerExists if a container with this id has appeared since ``begin_creation``,
    HostError if rename(2) fails.
    """
    final = f"{root}/{container_id}"
    try:
        posix.rename(path, final)
    except OSError as error:
        if error.errno in CLASH:
            raise ContainerExists(container_id) from None
        raise HostError(f'rename "{path}" to "{final}"', error) from None
    return final


def remove_directory(path: str) -> None:
    """Remove a state directory with its files; do nothing if it is missing.

    Renames the directory first, so that no other command finds a half-removed container.  Raises
    HostError if the directory cannot be removed.
    """
    directory, _, name = path.rpartition("/")
    doomed = path if name.startswith(".") else f"{directory}/{DELETING}{name}"
    try:
        if doomed != path:
            _remove_tree(doomed)
            posix.rename(path, doomed)
        _remove_tree(doomed)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise HostError(f'remove state directory "{path}"', error) from None


def _remove_tree(path: str) -> None:
    try:
        names = posix.listdir(path)
    except FileNotFoundError:
        return
    for name in names:
        try:
            posix.unlink(f"{path}/{name}")
        except IsADirectoryError:
            _remove_tree(f"{path}/{name}")
    posix.rmdir(path)
