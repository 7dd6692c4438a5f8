"""Copy files out of an app and into it, running or stopped.

The files belong to the app's program, which may change them at the same time.  So each path is
resolved with the app's root directory as root, component by component, with descriptors
(tree_paths.py), and the kernel follows no link: whatever the program does, no file outside the app
is read or written (`docker cp` could be led outside: CVE-2018-15664).  Nothing is loaded or
executed from the app's files (CVE-2019-14271).

In a running app, a path leads to the same file as for the app's program, through volumes and other
mounts.  In a stopped app, only its root filesystem and its volumes are mounted.

A process that copies the files of an app keeps the app's overlay mounted.  If the app were started
again during the copy, its upper directory would be part of two overlays; the kernel does not define
what happens then.  So a copy holds a shared lock on the app's directory, and the app's next start
waits for the lock (``mount_rootfs``).  The app's program, or the client that reads the
copy, can make a copy last for ever.  So a copy from a running app ends when the app exits.

A child process, the guard, holds the lock, too.  When a process is killed, the kernel closes its
files, which releases the lock, before it unmounts what the process had mounted.  The guard keeps
the lock until the process is gone.

The program of a stopped app may have left links at the mount points of its volumes.  A mount point
may be in another volume, which programs of other apps may change at any moment.  So each mount
point is resolved with the app's root directory as root, and the volume is mounted on the descriptor
that was opened, not on a path.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

from ociruntime.base.deep_tree import walk
from ociruntime.base.errors import HostError, ImageError, PodError, reason
from ociruntime.base.open_below_root import open_inside
from ociruntime.images.model.image_limits import MOST, Budget, Limits
from ociruntime.images.tar.decompression import CHUNK
from ociruntime.images.tar.file_attributes import AttributeWarnings
from ociruntime.images.tar.layer_writer import LayerTar, of_directory, of_file
from ociruntime.images.tar.tar_header import DIRECTORY, HARD_LINK, Header
from ociruntime.images.tar.tar_reader import TarReader
from ociruntime.images.unpack.tree_paths import Inside, Made, split_name
from ociruntime.images.unpack.unpack import LayerUnpacker
from ociruntime.pods.bundle import overlay
from ociruntime.pods.bundle.app_config import AppFacts, volume_mounts
from ociruntime.pods.bundle.private_mount_namespace import enter_own_mounts, mount, unmount
from ociruntime.pods.manifest.build_manifest import app_entry
from ociruntime.pods.manifest.flavours import flavour
from ociruntime.pods.store.lock import open_directory, try_lock
from ociruntime.pods.store.manifest_file import read_manifest, read_object, read_runtime_config
from ociruntime.pods.store.pod import Pod
from ociruntime.pods.store.pod_status import app_record

_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_REC = 1 << 0, 1 << 5, 1 << 12, 1 << 14
_PATH = os.O_PATH | os.O_CLOEXEC
_IGNORED = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGPIPE)
_PATH_ONLY = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_LINKS = 40
_KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}


@dataclass(frozen=True)
class AppRoot:
    """An app's root directory, open as the descriptor ``fd``.

    ``shift`` is the host id of the app's user 0; it is not 0 if the pod has a user namespace.
    """

    app: str
    fd: int
    shift: int
    limits: Limits

    def failed(self, action: str, path: str, error: Exception) -> PodError:
        why = reason(error) if isinstance(error, OSError) else str(error)
        return PodError(f'{action} "{path}": {why}')


@contextmanager
def app_root(pod: Pod, app: str, limits: Limits) -> Iterator[AppRoot]:
    """Context manager: yield the root directory of an app, opened for copying files.

    For a stopped app, this process enters a new mount namespace and mounts the root directory
    there; the app cannot be started until the context ends.  If a running app exits before the
    context ends, this process is killed.  Raises PodError if the files are not accessible,
    HostError if the root directory cannot be mounted or opened.
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
                # Close and unmount the root filesystem before the lock is released.
                unmount(f"apps/{app}/bundle/rootfs")
                os.close(fd)


@contextmanager
def _running_root(pod: Pod, app: str, pid: int, lock: int) -> Iterator[int]:
    """Context manager: yield a descriptor of a running app's root directory.

    ``pid`` is the app's init, ``lock`` the descriptor that holds the lock of the app's directory.
    If the init exits before the context ends, this process is killed.  Raises PodError if the init
    has already exited.
    """
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
                if has_ended(init):  # the pid may belong to another process by now
                    raise ended
                yield fd
            finally:
                os.close(fd)
    finally:
        os.close(init)


def _root_of(pod: Pod, pid: int) -> int:
    """Return a descriptor of the root directory of the process ``pid``.

    Raises PodError if the process is not in a cgroup of the pod, HostError if the directory cannot
    be opened.
    """
    try:
        process = os.open(f"/proc/{pid}", _PATH_ONLY)
        try:
            with open(os.open("cgroup", os.O_RDONLY | os.O_CLOEXEC, dir_fd=process)) as file:
                is_ours = pod.uuid in file.read()
            if not is_ours:
                raise ProcessLookupError
            # Without O_NOFOLLOW: "root" is a magic link to the process's root directory.
            return os.open("root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=process)
        finally:
            os.close(process)
    except (FileNotFoundError, ProcessLookupError):
        raise PodError(
            f"copy files of pod {pod.uuid}: the app has just exited", "try again"
        ) from None
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
        raise HostError(f'mount the root filesystem of stopped app "{app}"', error) from None
    try:
        mount_volumes(pod, app, settings, fd, limits)
    except BaseException:
        unmount(f"{home}/bundle/rootfs")
        os.close(fd)
        raise
    return fd


class _FileInApp:
    """A file in an app: ``name`` in the open directory ``fd``, and its ``status`` (lstat(2)).

    If the path ends in ``/``, ``.`` or ``..``, ``fd`` is the directory at the path, and ``name`` is
    b"".
    """

    def __init__(self, root: AppRoot, path: str, *, follow: bool = False) -> None:
        """Resolve ``path`` in ``root``; with ``follow``, also follow a symbolic link at its end.

        Raises OSError if a component is missing, ImageError if ``path`` has too many components or
        links.
        """
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
def _resolved(
    root: AppRoot, path: str, action: str, *, follow: bool = False
) -> Iterator[_FileInApp]:
    """Context manager: resolve ``path`` in an app, and yield the file.

    An OSError or ImageError raised in the context becomes a PodError, whose message begins with
    ``action`` (what was attempted) and ``path``.
    """
    file = None
    try:
        file = _FileInApp(root, path, follow=follow)
        yield file
    except (OSError, ImageError) as error:
        raise root.failed(action, path, error) from None
    finally:
        if file is not None:
            file.close()


def file_facts(root: AppRoot, path: str, *, follow: bool = False) -> dict[str, Any]:
    """Return ``{"name", "kind", "size"}`` of the file at ``path`` in an app.

    The kind is "file", "directory", "link" or "special".  The size is in bytes.  The name is "" for
    a path such as ``/`` or ``a/.``.  With ``follow``, a symbolic link is followed.  Raises PodError
    if the file is not found.
    """
    with _resolved(root, path, "inspect", follow=follow) as file:
        return {
            "name": os.fsdecode(file.name),
            "kind": _KINDS.get(stat.S_IFMT(file.status.st_mode), "special"),
            "size": file.status.st_size,
        }


def copy_out(root: AppRoot, path: str, target: BinaryIO, *, follow: bool = False) -> None:
    """Write a tar archive of the file or directory at ``path`` in an app to ``target``.

    The archive of a directory contains an entry "." for the directory, and names relative to it.
    Sockets, and filesystems mounted below the directory, are left out.  With ``follow``, a symbolic
    link at ``path`` is followed.  Raises PodError if a file cannot be read, or if ``path`` is a
    device, socket or FIFO.
    """
    with _resolved(root, path, "copy", follow=follow) as file:
        budget = Budget(root.limits, _any_room)
        if stat.S_ISDIR(file.status.st_mode):
            # Open it here: the app could replace a component of a path with a link at any moment.
            fd = os.open(file.name or b".", _DIRECTORY, dir_fd=file.fd)
            try:
                here = f"/proc/self/fd/{fd}"
                members = of_directory(here, budget, shift=root.shift, mounts=False)
                shutil.copyfileobj(LayerTar(members), target, CHUNK)
            finally:
                os.close(fd)
            return
        if stat.S_IFMT(file.status.st_mode) not in _KINDS:
            raise ImageError("it is not a regular file, directory or symbolic link")
        name = os.fsdecode(file.name)
        here = f"/proc/self/fd/{file.fd}/{name}"
        members = of_file(here, name, file.status, budget, root.shift)
        shutil.copyfileobj(LayerTar(members), target, CHUNK)


def copy_in(root: AppRoot, path: str, source: BinaryIO, *, name: str = "") -> list[str]:
    """Unpack the tar archive ``source`` to the directory ``path`` in an app.

    If ``name`` is not "", it replaces the first component of each name in the archive.  Existing
    files are replaced; existing directories are kept, and files are added to them.  Returns
    warnings for the user.  Raises PodError if the archive is invalid, a file cannot be written, or
    the pod has a user namespace.
    """
    if root.shift:
        raise PodError(
            f'copy files to app "{root.app}": not supported for pods with --private-users'
        )
    warnings = AttributeWarnings()
    with _resolved(root, path, "copy to", follow=True) as file:
        fd = os.open(file.name or b".", _DIRECTORY, dir_fd=file.fd)
        try:
            budget = Budget.at(fd, root.limits)
            reader = TarReader(source)
            _FileUnpacker(reader, fd, budget, warnings, os.fsencode(name)).apply()
        except HostError as error:
            raise PodError(f'copy files to "{path}": {error}') from None
        finally:
            os.close(fd)
    return warnings.lines()


class _FileUnpacker(LayerUnpacker):
    """An unpacker of ordinary tar archives, not image layers, into an app's root filesystem.

    Names ``.wh.*`` have no special meaning, and the attributes of the root directory are not
    changed.  A program in the app may move directories at the same time.  As in LayerUnpacker,
    symbolic links are not followed out of the root filesystem, so the worst case is that files end
    up elsewhere inside it.
    """

    def __init__(
        self, reader: TarReader, root: int, budget: Budget, warnings: AttributeWarnings, name: bytes
    ) -> None:
        super().__init__(reader, root, budget, warnings)
        self._name = name

    def _apply(self, header: Header) -> None:
        parts = self._renamed(split_name(header.name))
        if not parts:
            if header.type != DIRECTORY:
                raise ImageError("the archive contains a file without a name")
            return
        if header.type == HARD_LINK:
            header.link = b"/".join(self._renamed(split_name(header.link)))
        *parents, name = parts
        # Other processes change the tree: a cached descriptor may refer to a removed directory.
        self.inside.close()
        fd, parent = self.inside.directory(parents, self.made)
        self._create(header, fd, name, b"/".join(filter(None, (parent, name))))

    def _clear(self, fd: int, name: bytes) -> None:
        """Remove the file ``name`` in the directory ``fd``, so that it can be created anew.

        Raises ImageError if it is a directory.  Removing a directory could delete files on a
        filesystem mounted there, or files elsewhere if a program replaces the directory at the same
        time.
        """
        try:
            os.unlink(name, dir_fd=fd)
        except FileNotFoundError:
            pass
        except IsADirectoryError:
            shown = name.decode("utf-8", "backslashreplace")
            raise ImageError(f'cannot replace the directory "{shown}" with a file') from None

    def _renamed(self, parts: list[bytes]) -> list[bytes]:
        return [self._name, *parts[1:]] if parts and self._name else parts


def changes(pod: Pod, app: str, limits: Limits) -> Iterator[tuple[str, str]]:
    """Yield (kind, path) of each file that an app has changed in its root filesystem.

    The files are sorted.  The kinds are docker's: "A" (added), "C" (changed) and "D" (deleted).
    Raises PodError if the root filesystem is not an overlay, ImageError if the number or depth of
    files exceeds ``limits``, HostError if a file cannot be read.
    """
    settings = read_runtime_config(pod)
    known = read_object(pod, f"apps/{app}/image.json")
    if known is None or not settings.get("overlay"):
        raise PodError(
            f'list the changes of app "{app}" of pod {pod.uuid}: it has no overlay',
            "its root filesystem is a copy of the image",
        )
    try:
        tree = os.open(f"{settings['directory']}/cas/tree/{known['tree']}/rootfs", _PATH_ONLY)
        try:
            budget = Budget(limits, _any_room)
            yield from _changes(f"/proc/self/fd/{pod.fd}/apps/{app}/upper", tree, budget)
        finally:
            os.close(tree)
    except OSError as error:
        raise HostError(f'read the changes of app "{app}"', error) from None


def _changes(upper: str, tree: int, budget: Budget) -> Iterator[tuple[str, str]]:
    for change in walk(upper, budget.take_file):
        if change.leaving:
            continue
        budget.check_depth(len(change.cursor.names) + 1)
        mode = change.status.st_mode
        if stat.S_ISCHR(mode) and change.status.st_rdev == 0:
            yield "D", f"/{change.inside}"
        else:
            yield "C" if _is_below(tree, change.inside) else "A", f"/{change.inside}"


def _is_below(tree: int, path: str) -> bool:
    """Return whether the directory tree of an image has a file at ``path``.

    ``tree`` is a descriptor of the tree's root directory.  Symbolic links are not followed.
    """
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


@contextmanager
def lock_files(pod: Pod, app: str) -> Iterator[int]:
    """Context manager: lock the directory of ``app``, so that the app cannot be started.

    Yields the descriptor that holds the lock.  Raises PodError if the app is still starting,
    HostError if the directory cannot be opened.
    """
    try:
        lock = open_directory(f"apps/{app}", pod.fd)
    except OSError as error:
        raise HostError(f'open the directory of app "{app}"', error) from None
    try:
        if not try_lock(lock, exclusive=False):
            raise PodError(f'copy files of app "{app}": the app is still starting', "try again")
        yield lock
    finally:
        os.close(lock)


@contextmanager
def guarded(lock: int, app: str, init: int = -1) -> Iterator[None]:
    """Context manager: start a child process that also holds ``lock`` until the context ends.

    If this process is killed, the child holds the lock until the mounts of this process are gone.
    ``init`` is the pidfd of the app's init, or -1; when the init exits, the child kills this
    process.  Raises HostError if the child cannot be started.
    """
    try:
        us = os.pidfd_open(os.getpid())
        ended, end = os.pipe2(os.O_CLOEXEC)
        guard = os.fork()
    except OSError as error:
        raise HostError(f'start a process that holds the lock of app "{app}"', error) from None
    if guard == 0:
        try:
            _guard(lock, us, init, ended, app)
        finally:
            os._exit(0)
    os.close(us)
    os.close(ended)
    try:
        yield
    finally:
        with suppress(BrokenPipeError):  # the guard was killed
            os.write(end, b"x")
        os.close(end)
        os.waitpid(guard, 0)


def has_ended(pidfd: int) -> bool:
    """Return whether the process to which ``pidfd`` refers has exited."""
    return bool(select.select([pidfd], [], [], 0)[0])


def _guard(lock: int, us: int, init: int, ended: int, app: str) -> None:
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    needed = sorted({2, lock, us, ended, init} - {-1})
    # Close all other descriptors: they would keep the mount busy, or the pipe open.
    for below, above in zip([-1, *needed], [*needed, os.sysconf("SC_OPEN_MAX")], strict=True):
        os.closerange(below + 1, above)
    poll = select.poll()
    for fd in {us, ended, init} - {-1}:
        poll.register(fd, select.POLLIN)
    ready = {fd for fd, _ in poll.poll()}
    if ended in ready and os.read(ended, 1):
        return  # the context has ended
    if init in ready and us not in ready and ended not in ready:
        message = f'ocipod: copy files of app "{app}": the app has just exited (try again)\n'
        os.write(2, message.encode())
        signal.pidfd_send_signal(us, signal.SIGKILL)
    # A killed process closes its pipe before the kernel unmounts: wait for its pidfd.
    select.select([us], [], [])


def mount_volumes(pod: Pod, app: str, settings: dict[str, Any], root: int, limits: Limits) -> None:
    """Mount the volumes of ``app`` below its root directory, the descriptor ``root``.

    This process must be in a private mount namespace and in the pod's directory; ``settings`` is
    the pod's runtime-config.  Skips a volume whose source is missing or whose mount point is
    unsuitable, so that the app's other files remain accessible.  Raises HostError if a mount fails,
    PodError if the manifest is damaged.
    """
    manifest = read_manifest(pod)
    facts = AppFacts(pod.uuid, "")
    facts.flavour = flavour(settings.get("flavor") or "oci")
    for volume in manifest["volumes"]:
        # Only a relative path leads to the pod in this mount namespace.
        facts.volumes[volume["name"]] = volume.get("source") or f"volumes/{volume['name']}"
    for one in volume_mounts(manifest, app_entry(manifest, app), facts):
        try:
            source = os.open(one["source"], _PATH)
        except OSError:
            continue
        try:
            _mount(source, root, one, None if settings.get("private_users") else limits)
        finally:
            os.close(source)


def _mount(source: int, root: int, one: dict[str, Any], limits: Limits | None) -> None:
    target = _mount_point(source, root, one["destination"], limits)
    if target < 0:
        return
    recursive = _MS_REC if "rbind" in one["options"] else 0
    try:
        mount(f"/proc/self/fd/{source}", f"/proc/self/fd/{target}", "", _MS_BIND | recursive)
    finally:
        os.close(target)
    if "ro" in one["options"]:
        _make_read_only(source, root, one["destination"])


def _mount_point(source: int, root: int, path: str, limits: Limits | None) -> int:
    """Open the mount point ``path`` below ``root`` for ``source``, and return a descriptor.

    With ``limits``, a missing mount point is created if ``source`` is a directory.  Returns -1 if
    there is no mount point, or if only one of the mount point and ``source`` is a directory.
    """
    is_directory = stat.S_ISDIR(os.fstat(source).st_mode)
    try:
        try:
            target = open_inside(root, path, os.O_PATH)
        except FileNotFoundError:
            if limits is None or not is_directory:
                return -1
            budget = Budget(limits, lambda: (MOST, MOST))
            inside = Inside(root, budget)
            try:
                inside.directory(os.fsencode(path).split(b"/"), Made(budget))
            finally:
                inside.close()
            target = open_inside(root, path, os.O_PATH)
    except (OSError, ImageError):
        return -1
    if stat.S_ISDIR(os.fstat(target).st_mode) != is_directory:
        os.close(target)
        return -1
    return target


def _make_read_only(source: int, root: int, path: str) -> None:
    """Make the bind mount of ``source`` at ``path`` below ``root`` read-only.

    Raises HostError if this fails, or if something other than ``source`` is mounted at ``path``.
    """
    action = f'mount a volume read-only at "{path}"'
    try:
        made = open_inside(root, path, os.O_PATH)
    except OSError as error:
        raise HostError(action, error) from None
    try:
        # A program may replace a directory above the mount point: remount nothing but the volume.
        if not os.path.samestat(os.fstat(made), os.fstat(source)):
            raise HostError(action, OSError(116, "the mount point has been moved"))
        mount("", f"/proc/self/fd/{made}", "", _MS_REMOUNT | _MS_BIND | _MS_RDONLY)
    finally:
        os.close(made)
