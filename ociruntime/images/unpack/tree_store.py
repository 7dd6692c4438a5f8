"""The store of trees: root filesystems unpacked from images, which pods mount or copy.

    $D/cas/tree/ID/rootfs     the tree; ID depends only on the layers, so images can share a tree
    $D/cas/tree/ID/hash       JSON: digest, entries and size (``TreeHash``)
    $D/cas/tree/ID/rendered   exists once ``rootfs`` and ``hash`` are complete and synced
    $D/cas/locks/tree-ID      locked while a tree is unpacked or removed

A tree without ``rendered`` is incomplete: its unpacking process was killed.  The next process that
needs the tree removes it and unpacks it again.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ociruntime.base.errors import HostError, ImageError
from ociruntime.base.fault_injection import fault
from ociruntime.base.files import is_there, sync_directory
from ociruntime.base.json_text import dump, load
from ociruntime.base.locks import FileLock, forget_lock
from ociruntime.base.trusted_directories import make_directory
from ociruntime.images.model.blobs import Blobs
from ociruntime.images.model.digest import is_digest
from ociruntime.images.model.image import Image, Progress, silent
from ociruntime.images.model.image_limits import Limits
from ociruntime.images.tar.file_attributes import refusal

if TYPE_CHECKING:
    from hashlib import _Hash

WHOLE = "whole"
CHANGED = "changed"
NOT_RENDERED = "not rendered"


@dataclass(frozen=True)
class Tree:
    """A tree; ``rendered`` says whether it is complete.

    ``size`` is the total size of its files in bytes; 0 if it is incomplete.
    """

    id: str
    rendered: bool
    size: int


def tree_id(image: Image) -> str:
    """Return the id of an image's tree: the ChainID of its layers, with a dash for the colon.

    In mount options of overlayfs, a colon would separate directories.
    """
    return image.chain_id.replace(":", "-")


class TreeStore:
    """The trees in a data directory, unpacked from the images in the same data directory.

    ``limits()`` returns the limits for unpacking, like ``Settings.limits``; None means the default
    limits.  ``warnings`` contains the warnings of the last ``render``.  Methods raise HostError if
    files cannot be read or written, ImageError for an invalid tree id.
    """

    def __init__(self, directory: str, limits: Callable[[], Limits] | None = None) -> None:
        self.path = f"{directory}/cas/tree"
        self.locks = f"{directory}/cas/locks"
        self.blobs = Blobs(f"{directory}/cas/blobs")
        self.limits = limits
        self.warnings: list[str] = []
        for path in (f"{directory}/cas", self.path, self.locks):
            make_directory(os.path.abspath(path), 0o700, "image store")

    def rootfs(self, tree: str) -> str:
        """Return the path of a tree's root filesystem, even if the tree does not exist."""
        return f"{self._directory(tree)}/rootfs"

    def is_rendered(self, tree: str) -> bool:
        """Return whether a tree is complete.

        Raises HostError if that cannot be determined: returning False would make the caller unpack
        a tree again that running pods may use.
        """
        return is_there(f"{self._directory(tree)}/rendered")

    def render(self, image: Image, progress: Progress = silent) -> str:
        """Unpack an image's tree, unless it is complete; return the tree's id.

        Waits while another process is unpacking the tree.  Raises ImageError if a layer cannot be
        unpacked.
        """
        tree = tree_id(image)
        with FileLock(self._lock(tree), exclusive=False):
            if self.is_rendered(tree):
                return tree
        with FileLock(self._lock(tree), exclusive=True):
            if not self.is_rendered(tree):
                try:
                    self._render(image, tree, progress)
                except BaseException:
                    forget_lock(self._lock(tree))
                    raise
        return tree

    def render_again(self, image: Image, progress: Progress = silent) -> str:
        """Remove an image's tree, unpack it again and return the tree's id.

        The caller ensures that no running pod uses the tree.  Raises ImageError if a layer cannot
        be unpacked.
        """
        tree = tree_id(image)
        with FileLock(self._lock(tree), exclusive=True):
            self._render(image, tree, progress)
        return tree

    def verify(self, tree: str, progress: Progress = silent) -> str:
        """Compare a tree with its recorded hash.

        Returns WHOLE, CHANGED, or NOT_RENDERED if the tree is incomplete.
        """
        with FileLock(self._lock(tree), exclusive=False):
            if not self.is_rendered(tree):
                return NOT_RENDERED
            known = self._recorded_hash(tree)
            actual = hash_tree(self.rootfs(tree), progress, known.size if known else 0)
            return WHOLE if actual == known else CHANGED

    def trees(self) -> list[Tree]:
        """Return all trees, including incomplete trees."""
        try:
            names = sorted(os.listdir(self.path))
        except OSError as error:
            raise HostError(f'read "{self.path}"', error) from None
        return [
            Tree(name, self.is_rendered(name), self.size(name)) for name in names if _is_id(name)
        ]

    def size(self, tree: str) -> int:
        """Return the total size of a tree's files in bytes; 0 if the tree is incomplete."""
        try:
            return int(self._read_hash(tree)["size"]) if self.is_rendered(tree) else 0
        except (OSError, ValueError, KeyError, TypeError):
            return 0

    def remove(self, tree: str, *, wait: bool = True) -> bool:
        """Wait until no other process holds a tree's lock, then remove the tree; return True.

        Without ``wait``, returns False at once if another process holds the lock.
        """
        lock = self._lock(tree)
        with FileLock(lock, exclusive=True, wait=wait) as held:
            if not held:
                return False
            try:
                self._clear(tree)
                forget_lock(lock)
            except OSError as error:
                raise HostError(f'remove "{self._directory(tree)}"', error) from None
        return True

    def sweep(self) -> None:
        """Remove unlocked lock files of trees that do not exist any more."""
        try:
            names = os.listdir(self.locks)
            trees = set(os.listdir(self.path))
        except OSError as error:
            raise HostError(f'read "{self.locks}"', error) from None
        for name in names:
            lock = f"{self.locks}/{name}"
            if name.removeprefix("tree-") not in trees:
                with FileLock(lock, exclusive=True, wait=False) as held:
                    if held:
                        forget_lock(lock)

    def _directory(self, tree: str) -> str:
        if not _is_id(tree):
            raise ImageError(f'invalid tree id "{tree}"')
        return f"{self.path}/{tree}"

    def _lock(self, tree: str) -> str:
        self._directory(tree)
        return f"{self.locks}/tree-{tree}"

    def _recorded_hash(self, tree: str) -> TreeHash | None:
        """Return the hash recorded in a tree's file ``hash``; None if it is missing or damaged."""
        try:
            known = self._read_hash(tree)
            return TreeHash(str(known["digest"]), int(known["entries"]), int(known["size"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _read_hash(self, tree: str) -> Any:  # noqa: ANN401 - a JSON document
        """Return the JSON document in a tree's file ``hash``.

        Raises OSError if the file cannot be read, ValueError if it is not JSON.
        """
        with open(f"{self._directory(tree)}/hash", "rb") as file:
            return load(file.read())

    def _render(self, image: Image, tree: str, progress: Progress) -> None:
        """Unpack an image's tree; on failure, remove it.  The caller holds the tree's lock."""
        from ociruntime.images.unpack.unpack import unpack

        directory = self._directory(tree)
        try:
            self._clear(tree)
            try:
                os.mkdir(directory, 0o700)
                os.mkdir(f"{directory}/rootfs")
                flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                root = os.open(f"{directory}/rootfs", flags)
                try:
                    os.fchmod(root, 0o755)
                    limits = self.limits() if self.limits else None
                    self.warnings = unpack(self.blobs, image.layers, root, limits, progress)
                finally:
                    os.close(root)
                self._finish(directory, hash_tree(f"{directory}/rootfs", progress))
            except BaseException:
                self._clear(tree)
                raise
        except OSError as error:
            raise HostError(f'unpack image {image.id} to "{directory}"', error) from None

    def _finish(self, directory: str, known: TreeHash) -> None:
        """Write a tree's file ``hash``, sync the filesystem, then create the file ``rendered``."""
        with open(f"{directory}/hash", "x", encoding="utf-8") as file:
            file.write(dump(vars(known)))
        _sync_file_system(directory)
        fault("treestore.before-rendered-flag")
        os.close(os.open(f"{directory}/rendered", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        sync_directory(directory)
        sync_directory(self.path)

    def _clear(self, tree: str) -> None:
        """Remove a tree.

        Its marker file ``rendered`` is removed first, so that an incomplete tree never appears
        complete.  Raises OSError if a file cannot be removed.
        """
        directory = self._directory(tree)
        try:
            os.unlink(f"{directory}/rendered")
            sync_directory(directory)
        except FileNotFoundError:
            pass
        try:
            os.lstat(directory)
        except FileNotFoundError:
            return
        import shutil

        shutil.rmtree(directory)


def _is_id(text: str) -> bool:
    return "-" in text and ":" not in text and is_digest(text.replace("-", ":", 1))


def _sync_file_system(path: str) -> None:
    from ociruntime._system_calls import lib

    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if error := -lib.oci_syncfs(fd):
            raise OSError(error, os.strerror(error))
    finally:
        os.close(fd)


# The hash of a tree covers the properties of files that programs can notice: paths, types, modes,
# owners, device numbers, links, sizes, contents and the extended attributes that images can have.
# It does not cover times, which a mount may change.

_CHUNK = 1 << 20
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class TreeHash:
    """The hash of a tree, the number of its files, and their total size in bytes."""

    digest: str
    entries: int
    size: int


def hash_tree(path: str, progress: Progress = silent, expected: int = 0) -> TreeHash:
    """Return the hash of the directory tree at ``path``.

    ``expected`` is the expected size of the tree in bytes, for ``progress``.  Raises HostError if a
    file cannot be read.
    """
    walk = _Walk(progress, expected)
    try:
        root = os.open(path, _DIRECTORY)
        try:
            walk.entry(b"", os.fstat(root), [], _attributes(root))
            walk.directory(root, b"")
        finally:
            os.close(root)
    except OSError as error:
        raise HostError(f'read the tree "{path}"', error) from None
    return TreeHash(f"sha256:{walk.hash.hexdigest()}", walk.entries, walk.size)


class _Walk:
    def __init__(self, progress: Progress, expected: int) -> None:
        self.progress = progress
        self.expected = expected
        self.hash: _Hash = hashlib.sha256()
        # (device, inode) -> digest of the content, for files with several links
        self.contents: dict[tuple[int, int], bytes] = {}
        self.entries = 0
        self.size = 0

    def directory(self, fd: int, parent: bytes) -> None:
        # Use a path in /proc: os.listdir of a descriptor would not return names as bytes.
        for name in sorted(os.listdir(b"/proc/self/fd/%d" % fd)):
            path = parent + b"/" + name
            status = os.stat(name, dir_fd=fd, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                below = os.open(name, _DIRECTORY, dir_fd=fd)
                try:
                    self.entry(path, status, [], _attributes(below))
                    self.directory(below, path)
                finally:
                    os.close(below)
            elif stat.S_ISREG(status.st_mode):
                file = os.open(name, _FILE, dir_fd=fd)
                try:
                    self.entry(path, status, [self._content(file, status)], _attributes(file))
                finally:
                    os.close(file)
            else:
                link = stat.S_ISLNK(status.st_mode)
                more = os.readlink(name, dir_fd=fd) if link else b"%d" % status.st_rdev
                self.entry(path, status, [more], _attributes(b"/proc/self/fd/%d/%s" % (fd, name)))

    def entry(
        self, path: bytes, status: os.stat_result, more: list[bytes], attributes: list[bytes]
    ) -> None:
        """Add a file's path, status and extended attributes to the hash of the tree.

        ``more`` depends on the type of the file: the digest of its content, the target of a link,
        or a device number.  The length of each value is hashed before the value, so that different
        files never have the same hash.
        """
        self.entries += 1
        fields = [path, b"%o %d %d" % (status.st_mode, status.st_uid, status.st_gid)]
        if stat.S_ISREG(status.st_mode):
            fields.append(b"%d" % status.st_size)
        for field in (*fields, *more, b"%d" % len(attributes), *attributes):
            self.hash.update(b"%d:%s," % (len(field), field))

    def _content(self, file: int, status: os.stat_result) -> bytes:
        key = (status.st_dev, status.st_ino)
        if known := self.contents.get(key):
            return known
        hashed = hashlib.sha256()
        while chunk := os.read(file, _CHUNK):
            hashed.update(chunk)
            self.size += len(chunk)
            self.progress("reading the tree", self.size, self.expected)
        if status.st_nlink > 1:
            self.contents[key] = hashed.digest()
        return hashed.digest()


def _attributes(file: int | bytes) -> list[bytes]:
    """Return [name, value, name, value ...] of a file's extended attributes, sorted by name.

    Omits attributes that images may not set.
    """
    follow = isinstance(file, int)
    try:
        names = sorted(os.listxattr(file, follow_symlinks=follow))
    except OSError:
        return []  # not supported by this filesystem or type of file
    fields = []
    for name in names:
        if not refusal(name):
            fields += [os.fsencode(name), os.getxattr(file, name, follow_symlinks=follow)]
    return fields
