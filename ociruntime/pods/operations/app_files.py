"""Copy files out of an app and into it, running or stopped.

The files belong to the app's program, which may change them at the same time. Every path is
resolved with the app's root directory as root, component by component with descriptors
(tree_paths.py), and no link is followed by the kernel: whatever the program does, no file of the
host is read or written (`docker cp` could be led outside: CVE-2018-15664). Nothing is loaded or
executed from there (CVE-2019-14271).

In a running app, paths lead where they lead for its program, through volumes and other mounts; in a
stopped app, only its root filesystem and its volumes are mounted.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

from ociruntime.base.deep_tree import walk
from ociruntime.base.errors import HostError, ImageError, PodError, reason
from ociruntime.images.model.limits import Budget, Limits
from ociruntime.images.tar.attributes import Notes
from ociruntime.images.tar.header import DIRECTORY, HARD_LINK, Header
from ociruntime.images.tar.layer_writer import LayerTar, of_directory, of_file
from ociruntime.images.tar.reader import TarReader
from ociruntime.images.tar.streams import CHUNK
from ociruntime.images.unpack.tree_paths import Inside, split_name
from ociruntime.images.unpack.unpack import LayerUnpacker
from ociruntime.pods.bundle import overlay
from ociruntime.pods.bundle.private_mount_namespace import enter_own_mounts, unmount
from ociruntime.pods.operations.copy_guard import guarded, has_ended, lock_files
from ociruntime.pods.operations.stopped_volumes import mount_volumes
from ociruntime.pods.store.description import app_record
from ociruntime.pods.store.manifest_file import read_object, read_runtime_config
from ociruntime.pods.store.pod import Pod

_PATH_ONLY = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_LINKS = 40
_KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}


@dataclass(frozen=True)
class AppRoot:
    """The root directory of an app: its descriptor ``fd``; ``shift`` is the host id of user 0."""

    app: str
    fd: int
    shift: int
    limits: Limits

    def failed(self, action: str, path: str, error: Exception) -> PodError:
        why = reason(error) if isinstance(error, OSError) else str(error)
        return PodError(f'{action} "{path}": {why}')


@contextmanager
def app_root(pod: Pod, app: str, limits: Limits) -> Iterator[AppRoot]:
    """Open the root directory of an app, to copy files; for a stopped app, mount it first.

    For a stopped app, this process enters a mount namespace of its own, and the app cannot be
    started until the context ends.  If a running app ends, this process is killed.  Raises
    PodError, HostError.
    """
    settings = read_runtime_config(pod)
    if settings.get("flavor") == "kvm":
        raise PodError(f"copy files of pod {pod.uuid}: not supported for flavour kvm")
    users = settings.get("private_users")
    shift = int(users["shift"]) if users else 0
    with lock_files(pod, app) as lock:
        pod.refresh()
        record = app_record(pod, app)
        if record["state"] == "running" and record.get("pid"):
            with _running_root(pod, app, int(record["pid"]), lock) as fd:
                yield AppRoot(app, fd, shift, limits)
            return
        with guarded(lock, app):
            fd = _stopped_root(pod, app, settings, limits)
            try:
                yield AppRoot(app, fd, shift, limits)
            finally:
                # Detached and closed, it is unmounted before the lock is released.
                unmount(f"apps/{app}/bundle/rootfs")
                os.close(fd)


@contextmanager
def _running_root(pod: Pod, app: str, pid: int, lock: int) -> Iterator[int]:
    """Open the root directory of an app's init; this process is killed when the init exits."""
    ended = PodError(
        f'copy files of app "{app}" of pod {pod.uuid}: it has just exited', "try again"
    )
    try:
        init = os.pidfd_open(pid)
    except OSError:
        raise ended from None
    try:
        with guarded(lock, app, init):
            fd = _root_of(pod, pid)
            try:
                if has_ended(init):  # the pid may be another process's by now
                    raise ended
                yield fd
            finally:
                os.close(fd)
    finally:
        os.close(init)


def _root_of(pod: Pod, pid: int) -> int:
    """Open the root directory of a process, after checking its cgroup: it must be the pod's."""
    try:
        process = os.open(f"/proc/{pid}", _PATH_ONLY)
        try:
            with open(os.open("cgroup", os.O_RDONLY | os.O_CLOEXEC, dir_fd=process)) as file:
                is_ours = pod.uuid in file.read()
            if not is_ours:
                raise ProcessLookupError
            # Without O_NOFOLLOW: "root" is a magic link, which leads to the root directory.
            return os.open("root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=process)
        finally:
            os.close(process)
    except (FileNotFoundError, ProcessLookupError):
        message = f"copy files of pod {pod.uuid}: the app has just exited"
        raise PodError(message, "try again") from None
    except OSError as error:
        raise HostError(f"open the root directory of process {pid}", error) from None


def _stopped_root(pod: Pod, app: str, settings: dict[str, Any], limits: Limits) -> int:
    known = read_object(pod, f"apps/{app}/image.json")
    if known is None:
        raise PodError(f'open app "{app}" of pod {pod.uuid}: its files have been removed')
    home = f"apps/{app}"
    try:
        # Only the working directory survives the switch to a new mount namespace.
        os.fchdir(pod.fd)
        enter_own_mounts()
        if settings.get("overlay"):
            tree = f"{settings['directory']}/cas/tree/{known['tree']}/rootfs"
            target = f"{home}/bundle/rootfs"
            users = settings.get("private_users")
            if users:
                with overlay.UserNamespace(users["shift"], users["count"]) as namespace:
                    overlay.mount_overlay(tree, home, target, namespace)
            else:
                overlay.mount_overlay(tree, home, target)
        fd = os.open(f"{home}/bundle/rootfs", _PATH_ONLY)
    except OSError as error:
        raise HostError(f'open the files of app "{app}"', error) from None
    try:
        mount_volumes(pod, app, settings, fd, limits)
    except BaseException:
        unmount(f"{home}/bundle/rootfs")
        os.close(fd)
        raise
    return fd


class _Place:
    """A file in an app: its ``name`` in the directory ``fd``, and its status.

    ``name`` is b"" for a path that names a directory itself (``/``, ``a/.``, ``a/..``).
    """

    def __init__(self, root: AppRoot, path: str, *, follow: bool = False) -> None:
        """Resolve ``path``.  Raises OSError, ImageError."""
        self._inside = Inside(root.fd, Budget(root.limits, _any_room))
        parts = os.fsencode(path).split(b"/")
        for _ in range(_MOST_LINKS):
            *parents, self.name = parts
            if self.name in (b"", b".", b".."):
                parents, self.name = parts, b""
            self.fd, _ = self._inside.directory(parents)
            here = b"." if not self.name else self.name
            self.status = os.stat(here, dir_fd=self.fd, follow_symlinks=False)
            if not follow or not stat.S_ISLNK(self.status.st_mode):
                return
            target = os.readlink(self.name, dir_fd=self.fd).split(b"/")
            parts = target if target[0] == b"" else [*parents, *target]
        raise ImageError("too many levels of symbolic links")

    def close(self) -> None:
        self._inside.close()


def _any_room() -> tuple[int, int]:
    return 1 << 62, 1 << 62


@contextmanager
def _place(root: AppRoot, path: str, action: str, *, follow: bool = False) -> Iterator[_Place]:
    """Resolve ``path`` in an app; a failure in the context becomes a PodError.

    Its message names ``action``, what was attempted, and the path.
    """
    place = None
    try:
        place = _Place(root, path, follow=follow)
        yield place
    except (OSError, ImageError) as error:
        raise root.failed(action, path, error) from None
    finally:
        if place is not None:
            place.close()


def file_facts(root: AppRoot, path: str, *, follow: bool = False) -> dict[str, Any]:
    """Return ``{"name", "kind", "size"}`` of the file at ``path`` in an app, size in bytes.

    The kind is file, directory, link or special.  With ``follow``, a link's target is described.
    The name is "" for a path such as ``/`` or ``a/.``.  Raises PodError.
    """
    with _place(root, path, "inspect", follow=follow) as place:
        return {
            "name": os.fsdecode(place.name),
            "kind": _KINDS.get(stat.S_IFMT(place.status.st_mode), "special"),
            "size": place.status.st_size,
        }


def copy_out(root: AppRoot, path: str, target: BinaryIO, *, follow: bool = False) -> None:
    """Write a tar archive of the file or directory at ``path`` in an app to ``target``.

    Names in the archive of a directory are relative to it; the first is ".".  Sockets and files on
    other filesystems mounted below the directory are left out.  Raises PodError.
    """
    with _place(root, path, "copy", follow=follow) as place:
        budget = Budget(root.limits, _any_room)
        if stat.S_ISDIR(place.status.st_mode):
            # Opened here: a path to it could lead through a link by the time it is used.
            fd = os.open(place.name or b".", _DIRECTORY, dir_fd=place.fd)
            try:
                here = f"/proc/self/fd/{fd}"
                members = of_directory(here, budget, shift=root.shift, mounts=False)
                shutil.copyfileobj(LayerTar(members), target, CHUNK)
            finally:
                os.close(fd)
            return
        if stat.S_IFMT(place.status.st_mode) not in _KINDS:
            raise ImageError("not a regular file, directory or symbolic link")
        name = os.fsdecode(place.name)
        here = f"/proc/self/fd/{place.fd}/{name}"
        members = of_file(here, name, place.status, budget, root.shift)
        shutil.copyfileobj(LayerTar(members), target, CHUNK)


def copy_in(root: AppRoot, path: str, source: BinaryIO, *, name: str = "") -> list[str]:
    """Unpack a tar archive, read from ``source``, to the directory ``path`` in an app.

    With ``name``, it replaces the first component of each name in the archive.  Existing files are
    replaced; existing directories are kept and get the archive's files.  Return warnings as lines.
    Raises PodError.
    """
    if root.shift:
        raise PodError(f'copy to app "{root.app}": not supported for pods with --private-users')
    notes = Notes()
    with _place(root, path, "copy to", follow=True) as place:
        fd = os.open(place.name or b".", _DIRECTORY, dir_fd=place.fd)
        try:
            budget = Budget.at(fd, root.limits)
            reader = TarReader(source)
            _FileUnpacker(reader, fd, budget, notes, os.fsencode(name)).apply()
        except HostError as error:
            raise PodError(f'copy to "{path}": {error}') from None
        finally:
            os.close(fd)
    return notes.lines()


class _FileUnpacker(LayerUnpacker):
    """Unpacks a plain tar archive, not a layer: ``.wh.`` names are ordinary, the root is unchanged.

    It relies on LayerUnpacker: no operation there follows a link in the last component, and Inside
    resolves those in parents.  A program that moves directories meanwhile can only change where in
    its own filesystem the files end up.
    """

    def __init__(
        self, reader: TarReader, root: int, budget: Budget, notes: Notes, name: bytes
    ) -> None:
        super().__init__(reader, root, budget, notes)
        self._name = name

    def _apply(self, header: Header) -> None:
        parts = self._renamed(split_name(header.name))
        if not parts:
            if header.type != DIRECTORY:
                raise ImageError("a file without a name in the archive")
            return
        if header.type == HARD_LINK:
            header.link = b"/".join(self._renamed(split_name(header.link)))
        *parents, name = parts
        # Other processes change the tree: a cached descriptor may be of a removed directory.
        self.inside.close()
        fd, parent = self.inside.directory(parents, self.made)
        self._create(header, fd, name, b"/".join(filter(None, (parent, name))))

    def _clear(self, fd: int, name: bytes) -> None:
        """Remove the file ``name``, which the archive replaces; refuse to remove a directory.

        Removing a directory could delete files on a filesystem mounted there, and shutil.rmtree
        could be led outside by a program that replaces the directory meanwhile.
        """
        try:
            os.unlink(name, dir_fd=fd)
        except FileNotFoundError:
            pass
        except IsADirectoryError:
            shown = name.decode("utf-8", "backslashreplace")
            raise ImageError(f'"{shown}" is a directory, and a file would replace it') from None

    def _renamed(self, parts: list[bytes]) -> list[bytes]:
        return [self._name, *parts[1:]] if parts and self._name else parts


def changes(pod: Pod, app: str, limits: Limits) -> Iterator[tuple[str, str]]:
    """Yield the files that an app has changed in its root filesystem, sorted, as (kind, path).

    The kinds are docker's: A (added), C (changed) and D (deleted).  ``limits`` has the maximum
    number and depth of files.  Raises PodError for pods without overlays, ImageError beyond the
    limits.
    """
    settings = read_runtime_config(pod)
    known = read_object(pod, f"apps/{app}/image.json")
    if known is None or not settings.get("overlay"):
        message = f'list the changes of app "{app}" of pod {pod.uuid}: it has no overlay'
        raise PodError(message, "its root filesystem is a copy of the image")
    tree = os.open(f"{settings['directory']}/cas/tree/{known['tree']}/rootfs", _PATH_ONLY)
    try:
        budget = Budget(limits, _any_room)
        yield from _changes(f"/proc/self/fd/{pod.fd}/apps/{app}/upper", tree, budget)
    except OSError as error:
        raise HostError(f'read the changes of app "{app}"', error) from None
    finally:
        os.close(tree)


def _changes(upper: str, tree: int, budget: Budget) -> Iterator[tuple[str, str]]:
    for found in walk(upper, budget.take_file):
        if found.leaving:
            continue
        budget.check_depth(len(found.cursor.names) + 1)
        mode = found.status.st_mode
        if stat.S_ISCHR(mode) and found.status.st_rdev == 0:
            yield "D", f"/{found.inside}"
        else:
            yield "C" if _is_below(tree, found.inside) else "A", f"/{found.inside}"


def _is_below(tree: int, path: str) -> bool:
    """Return whether the image's ``tree`` has a file at ``path``, not below a symbolic link."""
    fd = os.dup(tree)
    *parents, name = path.split("/")
    try:
        for part in parents:
            below = os.open(part, _PATH_ONLY, dir_fd=fd)
            os.close(fd)
            fd = below
        os.stat(name, dir_fd=fd, follow_symlinks=False)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True
