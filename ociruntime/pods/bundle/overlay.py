"""Mount an app's root filesystem: an overlay on its image's tree.

The directories are passed as ``/proc/self/fd/N``, because commas and colons in a path would
separate mount options or directories.
"""

from __future__ import annotations

import os
from typing import Any

from ociruntime.base.errors import HostError, PodError, reason
from ociruntime.base.linux import CLONE_NEWUSER
from ociruntime.base.locks import lock_within
from ociruntime.pods.bundle.private_mount_namespace import mount, unmount

COPY_TIMEOUT = 5.0  # seconds that the start of an app waits until its files are copied


def mount_rootfs(
    home: str, tree: str, settings: dict[str, Any], user_namespace: str | None
) -> None:
    """Mount an app's root filesystem, an overlay, at ``home/bundle/rootfs``.

    Does nothing if the overlay is mounted already, or if the pod uses no overlays.  ``home`` is the
    app's directory, ``tree`` the root directory of its unpacked image, ``settings`` the pod's
    runtime-config, ``user_namespace`` the path of the pod's user namespace, or None.

    Raises PodError if another process is still copying the app's files after COPY_TIMEOUT (5
    seconds), HostError if the mount fails.
    """
    if not settings.get("overlay"):
        return
    # A process that copies the app's files may still have its overlay mounted: do not mount
    # it twice.
    lock = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        if not lock_within(lock, COPY_TIMEOUT):
            name = home.rpartition("/")[2]
            raise PodError(f'start app "{name}": its files are still being copied', "try again")
        _mount_once(home, tree, settings, user_namespace)
    finally:
        os.close(lock)


def _mount_once(home: str, tree: str, settings: dict[str, Any], user_namespace: str | None) -> None:
    target = f"{home}/bundle/rootfs"
    if _is_mounted(target):
        return
    if not settings.get("private_users") or not user_namespace:
        mount_overlay(tree, home, target)
        return
    users = os.open(user_namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        mount_overlay(tree, home, target, users)
    finally:
        os.close(users)


def mount_overlay(tree: str, home: str, target: str, user_namespace: int = -1) -> None:
    """Mount an overlay of ``home/upper`` on ``tree`` at ``target``; ``home/work`` is its workdir.

    ``user_namespace`` is a descriptor of the user namespace that maps the owners of the files in
    ``tree``, or -1 to leave the owners as they are.  Raises HostError if the mount fails, OSError
    if a directory cannot be opened.
    """
    flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
    opened = [os.open(tree, flags) if user_namespace < 0 else _clone(tree, user_namespace)]
    try:
        for name in ("upper", "work"):
            opened.append(os.open(f"{home}/{name}", flags))
        # Keep every change complete in the upper directory, because export reads nothing else.
        options = ["redirect_dir=off,metacopy=off"]
        for option, fd in zip(("lowerdir", "upperdir", "workdir"), opened, strict=True):
            options.append(f"{option}=/proc/self/fd/{fd}")
        mount("overlay", target, "overlay", 0, ",".join(options))
    finally:
        for fd in opened:
            os.close(fd)


def _clone(tree: str, user_namespace: int) -> int:
    from ociruntime._system_calls import ffi, lib

    fd: int = lib.oci_clone_mount(ffi.from_buffer(os.fsencode(tree) + b"\0"), user_namespace)
    if fd < 0:
        raise HostError(f'create an id-mapped mount of "{tree}"', OSError(-fd, os.strerror(-fd)))
    return fd


def mount_error(tree: str, home: str, private_users: tuple[int, int] | None) -> str:
    """Try to mount an overlay of ``home/upper`` on ``tree``; return the error, or "" on success.

    The overlay is unmounted again.  Only a mount shows reliably whether overlayfs supports the
    directories.  ``private_users`` is (first host id, number of ids) of the pod's user namespace,
    or None.  The caller must be in a private mount namespace.
    """
    target = f"{home}/bundle/rootfs"
    try:
        if private_users:
            with UserNamespace(*private_users) as users:
                mount_overlay(tree, home, target, users)
        else:
            mount_overlay(tree, home, target)
        try:
            os.listdir(target)
        finally:
            unmount(target)
    except HostError as error:
        return str(error)
    except OSError as error:
        return reason(error)
    return ""


class UserNamespace:
    """Context manager: create a user namespace, and yield its descriptor.

    The namespace maps the ids 0 to ``count`` - 1 to host ids, starting at ``first``.  When the
    context ends, the kernel removes the namespace, unless a mount uses it.
    """

    __slots__ = ("_count", "_fd", "_first")

    def __init__(self, first: int, count: int) -> None:
        self._first = first
        self._count = count
        self._fd = -1

    def __enter__(self) -> int:
        """Create the user namespace in a child process; return its descriptor.

        Raises OSError if the namespace cannot be created.
        """
        ready, ready_end = os.pipe2(os.O_CLOEXEC)
        done_end, done = os.pipe2(os.O_CLOEXEC)
        child = os.fork()
        if child == 0:
            try:
                unshare(CLONE_NEWUSER)
                os.write(ready_end, b"1")
                os.close(done)
                os.read(done_end, 1)
            finally:
                os._exit(0)
        os.close(ready_end)
        os.close(done_end)
        try:
            if os.read(ready, 1) != b"1":
                raise OSError(1, "cannot create a user namespace")
            for name in ("uid_map", "gid_map"):
                with open(f"/proc/{child}/{name}", "w", encoding="ascii") as file:
                    file.write(f"0 {self._first} {self._count}\n")
            self._fd = os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            os.close(ready)
            os.close(done)
            os.waitpid(child, 0)
        return self._fd

    def __exit__(self, *error: object) -> None:
        os.close(self._fd)


def unshare(kinds: int) -> None:
    """Move this thread to new namespaces; raise OSError if this fails.

    ``kinds`` is a combination of flags ``CLONE_NEW*``.
    """
    from ociruntime._system_calls import lib

    result = lib.oci_unshare(kinds)
    if result < 0:
        raise OSError(-result, os.strerror(-result))


def _is_mounted(path: str) -> bool:
    return os.stat(path).st_dev != os.stat(os.path.dirname(path)).st_dev
