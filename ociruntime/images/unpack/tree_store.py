"""Root filesystems rendered from images; pods mount or copy them, nothing writes to them.

    $D/cas/tree/ID/rootfs     the tree; ID depends on the layers alone, so images can share it
    $D/cas/tree/ID/hash       JSON: digest, entries and size (tree_hash.py)
    $D/cas/tree/ID/rendered   exists once all of the above is complete and synced
    $D/cas/locks/tree-ID      locked while a tree is rendered or removed

A tree without ``rendered`` does not count: the next process that needs it removes and renders it.
A crash at any time, also of the machine, leaves nothing worse.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ociruntime.base.errors import HostError, ImageError
from ociruntime.base.fault import fault
from ociruntime.base.files import sync_directory
from ociruntime.base.json_text import dump, load
from ociruntime.base.locks import FileLock, forget_lock
from ociruntime.base.trusted import make_directory
from ociruntime.images.model.blobs import Blobs
from ociruntime.images.model.digest import is_digest
from ociruntime.images.model.image import Image
from ociruntime.images.model.limits import Limits
from ociruntime.images.model.progress import Progress, silent
from ociruntime.images.tar.attributes import refusal

if TYPE_CHECKING:
    from hashlib import _Hash

WHOLE = "whole"
CHANGED = "changed"
NOT_RENDERED = "not rendered"


@dataclass(frozen=True)
class Tree:
    """A rendered tree; ``size`` is the bytes of its files, 0 if it is not ``rendered``."""

    id: str
    rendered: bool
    size: int


def tree_id(image: Image) -> str:
    """Return the id of the image's tree; no colon, as overlay mount options use it as separator."""
    return image.chain_id.replace(":", "-")


class TreeStore:
    """The trees below ``directory``, rendered from the image store there.

    ``limits`` returns the limits for rendering, like ``Settings.limits``; by default, the default
    limits. ``notes`` lists what the last render had to leave out.  Everything raises HostError.
    """

    def __init__(self, directory: str, limits: Callable[[], Limits] | None = None) -> None:
        self.path = f"{directory}/cas/tree"
        self.locks = f"{directory}/cas/locks"
        self.blobs = Blobs(f"{directory}/cas/blobs")
        self.limits = limits
        self.notes: list[str] = []
        for path in (f"{directory}/cas", self.path, self.locks):
            make_directory(os.path.abspath(path), 0o700, "image store")

    def rootfs(self, tree: str) -> str:
        """Return the path of a tree, rendered or not."""
        return f"{self._place(tree)}/rootfs"

    def is_rendered(self, tree: str) -> bool:
        """Return whether the tree is rendered."""
        return os.path.exists(f"{self._place(tree)}/rendered")

    def render(self, image: Image, progress: Progress = silent) -> str:
        """Render the image's tree unless it exists, only once for concurrent calls; return its id.

        Raises ImageError for a layer that cannot be unpacked.
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
        """Render the tree even if it exists; no running pod may use it.  See ``render``."""
        tree = tree_id(image)
        with FileLock(self._lock(tree), exclusive=True):
            self._render(image, tree, progress)
        return tree

    def verify(self, tree: str, progress: Progress = silent) -> str:
        """Return WHOLE, CHANGED or NOT_RENDERED."""
        with FileLock(self._lock(tree), exclusive=False):
            if not self.is_rendered(tree):
                return NOT_RENDERED
            known = self._known(tree)
            found = hash_tree(self.rootfs(tree), progress, known.size if known else 0)
            return WHOLE if found == known else CHANGED

    def trees(self) -> list[Tree]:
        """Return all trees, including incomplete ones."""
        try:
            names = sorted(os.listdir(self.path))
        except OSError as error:
            raise HostError(f'read "{self.path}"', error) from None
        found = []
        for name in names:
            if _is_id(name):
                found.append(Tree(name, self.is_rendered(name), self.size(name)))
        return found

    def size(self, tree: str) -> int:
        """Return the bytes of a tree's files; 0 if it is not rendered."""
        try:
            return int(self._noted(tree)["size"]) if self.is_rendered(tree) else 0
        except (OSError, ValueError, KeyError, TypeError):
            return 0

    def remove(self, tree: str, *, wait: bool = True) -> bool:
        """Remove a tree; return whether it was removed: without ``wait``, a locked one is not."""
        lock = self._lock(tree)
        with FileLock(lock, exclusive=True, wait=wait) as held:
            if not held:
                return False
            try:
                self._clear(tree)
                forget_lock(lock)
            except OSError as error:
                raise HostError(f'remove "{self._place(tree)}"', error) from None
        return True

    def sweep(self) -> None:
        """Remove lock files of trees that are gone, unless they are locked."""
        try:
            names = os.listdir(self.locks)
        except OSError as error:
            raise HostError(f'read "{self.locks}"', error) from None
        for name in names:
            lock = f"{self.locks}/{name}"
            if not os.path.lexists(f"{self.path}/{name.removeprefix('tree-')}"):
                with FileLock(lock, exclusive=True, wait=False) as held:
                    if held:
                        forget_lock(lock)

    def _place(self, tree: str) -> str:
        if not _is_id(tree):
            raise ImageError(f'invalid tree id "{tree}"')
        return f"{self.path}/{tree}"

    def _lock(self, tree: str) -> str:
        self._place(tree)
        return f"{self.locks}/tree-{tree}"

    def _known(self, tree: str) -> TreeHash | None:
        """Return the content of ``hash``; None if it is damaged."""
        try:
            known = self._noted(tree)
            return TreeHash(str(known["digest"]), int(known["entries"]), int(known["size"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _noted(self, tree: str) -> Any:  # noqa: ANN401 - a JSON document
        """Return the JSON document in the file ``hash``.  Raises OSError, ValueError."""
        with open(f"{self._place(tree)}/hash", "rb") as file:
            return load(file.read())

    def _render(self, image: Image, tree: str, progress: Progress) -> None:
        """Render under the exclusive lock; an incomplete tree is removed again on any failure."""
        from ociruntime.images.unpack.unpack import unpack

        place = self._place(tree)
        try:
            self._clear(tree)
            try:
                os.mkdir(place, 0o700)
                os.mkdir(f"{place}/rootfs")
                flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                root = os.open(f"{place}/rootfs", flags)
                try:
                    os.fchmod(root, 0o755)
                    limits = self.limits() if self.limits else None
                    self.notes = unpack(self.blobs, image.layers, root, limits, progress)
                finally:
                    os.close(root)
                self._finish(place, hash_tree(f"{place}/rootfs", progress))
            except BaseException:
                self._clear(tree)
                raise
        except OSError as error:
            raise HostError(f'make the tree "{place}"', error) from None

    def _finish(self, place: str, known: TreeHash) -> None:
        """Create ``rendered`` last, after syncing everything else."""
        with open(f"{place}/hash", "x", encoding="utf-8") as file:
            file.write(dump(vars(known)))
        _sync_file_system(place)
        fault("treestore.before-rendered-flag")
        os.close(os.open(f"{place}/rendered", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        sync_directory(place)
        sync_directory(self.path)

    def _clear(self, tree: str) -> None:
        """Remove ``rendered`` first, so that a partial tree never seems complete.

        Raises OSError.
        """
        place = self._place(tree)
        try:
            os.unlink(f"{place}/rendered")
            sync_directory(place)
        except FileNotFoundError:
            pass
        if os.path.lexists(place):
            import shutil

            shutil.rmtree(place)


def _is_id(text: str) -> bool:
    return "-" in text and ":" not in text and is_digest(text.replace("-", ":", 1))


def _sync_file_system(path: str) -> None:
    from ociruntime._shim import lib

    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if error := -lib.oci_syncfs(fd):
            raise OSError(error, os.strerror(error))
    finally:
        os.close(fd)


_CHUNK = 1 << 20
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A digest of everything in a tree that matters to programs that run in it.
#
# It covers paths, types, modes, owners, device numbers, links, sizes, contents and the extended
# attributes that images can have; not times, which a mount may change.

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class TreeHash:
    """The digest of a tree; ``entries`` counts the files, ``size`` their bytes."""

    digest: str
    entries: int
    size: int


def hash_tree(path: str, progress: Progress = silent, expected: int = 0) -> TreeHash:
    """Hash the directory ``path``, reporting bytes of ``expected``.  Raises HostError."""
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
        self.contents: dict[tuple[int, int], bytes] = {}  # digests of files with several links
        self.entries = 0
        self.size = 0

    def directory(self, fd: int, place: bytes) -> None:
        # Through /proc, because listing by path returns names as bytes; there may be millions.
        for name in sorted(os.listdir(b"/proc/self/fd/%d" % fd)):
            path = place + b"/" + name
            facts = os.stat(name, dir_fd=fd, follow_symlinks=False)
            if stat.S_ISDIR(facts.st_mode):
                below = os.open(name, _DIRECTORY, dir_fd=fd)
                try:
                    self.entry(path, facts, [], _attributes(below))
                    self.directory(below, path)
                finally:
                    os.close(below)
            elif stat.S_ISREG(facts.st_mode):
                file = os.open(name, _FILE, dir_fd=fd)
                try:
                    self.entry(path, facts, [self._content(file, facts)], _attributes(file))
                finally:
                    os.close(file)
            else:
                link = stat.S_ISLNK(facts.st_mode)
                more = os.readlink(name, dir_fd=fd) if link else b"%d" % facts.st_rdev
                self.entry(path, facts, [more], _attributes(b"/proc/self/fd/%d/%s" % (fd, name)))

    def entry(
        self, path: bytes, facts: os.stat_result, more: list[bytes], attributes: list[bytes]
    ) -> None:
        """Hash each field with its length as prefix, so that fields cannot be confused."""
        self.entries += 1
        fields = [path, b"%o %d %d" % (facts.st_mode, facts.st_uid, facts.st_gid)]
        if stat.S_ISREG(facts.st_mode):
            fields.append(b"%d" % facts.st_size)
        for field in (*fields, *more, b"%d" % len(attributes), *attributes):
            self.hash.update(b"%d:%s," % (len(field), field))

    def _content(self, file: int, facts: os.stat_result) -> bytes:
        key = (facts.st_dev, facts.st_ino)
        if known := self.contents.get(key):
            return known
        found = hashlib.sha256()
        while chunk := os.read(file, _CHUNK):
            found.update(chunk)
            self.size += len(chunk)
            self.progress("reading the tree", self.size, self.expected)
        if facts.st_nlink > 1:
            self.contents[key] = found.digest()
        return found.digest()


def _attributes(file: int | bytes) -> list[bytes]:
    """Return names and values alternately, sorted by name."""
    follow = isinstance(file, int)
    try:
        names = sorted(os.listxattr(file, follow_symlinks=follow))
    except OSError:
        return []  # not supported by this filesystem or type of file
    found = []
    for name in names:
        if not refusal(name):
            found += [os.fsencode(name), os.getxattr(file, name, follow_symlinks=follow)]
    return found
