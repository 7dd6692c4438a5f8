"""Write an image layer from a directory: a whole root filesystem or an overlay's upper directory.

Overlayfs marks removals by character devices 0:0 and the attribute ``trusted.overlay.opaque``; a
layer marks them by files with the prefix ``.wh.`` (OCI image specification, layer.md).
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import tarfile
from collections.abc import Collection
from typing import BinaryIO

from ociruntime.images.model.limits import Budget
from ociruntime.images.tar.attributes import is_text
from ociruntime.images.unpack.inside import LONGEST_NAME
from ociruntime.pods.store.deep_tree import open_regular, walk

WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"
_OVERLAYS = ("trusted.overlay.", "user.overlay.")
# struct vfs_ns_cap_data: magic and flags, four words of capability sets, uid of the root user.
_CAPABILITY, _OF_NAMESPACE, _OF_ROOT = "security.capability", struct.Struct("<6I"), 0x02000000
# POSIX ACLs: a version of 4 bytes, then entries (tag, permissions, id); id counts for _NAMED tags.
_ACCESS_LISTS = ("system.posix_acl_access", "system.posix_acl_default")
_ENTRY, _NAMED = struct.Struct("<HHI"), (0x02, 0x08)
_KINDS = {
    stat.S_IFREG: tarfile.REGTYPE,
    stat.S_IFDIR: tarfile.DIRTYPE,
    stat.S_IFLNK: tarfile.SYMTYPE,
    stat.S_IFCHR: tarfile.CHRTYPE,
    stat.S_IFBLK: tarfile.BLKTYPE,
    stat.S_IFIFO: tarfile.FIFOTYPE,
}


def write_layer(
    root: str,
    target: BinaryIO,
    budget: Budget,
    shift: int = 0,
    skipped: Collection[str] = (),
) -> None:
    """Write the tree at ``root`` to ``target`` as a tar archive.

    ``budget`` counts the bytes of files, holes included: they are written as zeros.  Owner ids are
    reduced by ``shift``.  ``skipped`` lists relative paths to leave out.  Sockets, and extended
    attributes with names that are not UTF-8, are left out as well.  Raises OSError, ImageError.
    """
    with tarfile.open(fileobj=target, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        _Writer(archive, budget, shift, frozenset(skipped)).tree(root)


class _Writer:
    __slots__ = ("_archive", "_budget", "_links", "_shift", "_skipped")

    def __init__(
        self, archive: tarfile.TarFile, budget: Budget, shift: int, skipped: frozenset[str]
    ) -> None:
        self._archive = archive
        self._budget = budget
        self._shift = shift
        self._skipped = skipped
        self._links: dict[tuple[int, int], str] = {}

    def tree(self, root: str) -> None:
        """Add everything in the directory at ``root``."""
        if _is_opaque(root):
            self._archive.addfile(_empty(OPAQUE))
        for found in walk(root):
            name = found.inside
            if found.leaving or name in self._skipped:
                continue
            if len(os.fsencode(name)) > LONGEST_NAME:
                # Our importer refuses longer paths, and in a deep tree each header repeats them.
                message = f"path is longer than {LONGEST_NAME} bytes: {name[:60]}..."
                raise OSError(errno.ENAMETOOLONG, message)
            status = found.status
            if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
                whiteout = "/".join([*found.place.names, f"{WHITEOUT}{found.name}"])
                self._archive.addfile(_empty(whiteout))
            elif not stat.S_ISSOCK(status.st_mode):
                self._add(found.path, name, status)

    def _add(self, path: str, name: str, status: os.stat_result) -> None:
        header = self._header(path, name, status)
        if header.type == tarfile.REGTYPE:
            self._budget.take_bytes(header.size)
            with open(open_regular(path, status), "rb") as file:
                self._archive.addfile(header, file)
            return
        self._archive.addfile(header)
        if header.isdir() and _is_opaque(path):
            self._archive.addfile(_empty(f"{name}/{OPAQUE}"))

    def _inside(self, number: int) -> int:
        """Map a host id into the pod's user namespace; ids below its range become 0."""
        return number - self._shift if number >= self._shift else 0

    def _header(self, path: str, name: str, status: os.stat_result) -> tarfile.TarInfo:
        header = tarfile.TarInfo(name)
        header.type = _KINDS[stat.S_IFMT(status.st_mode)]
        header.mode = stat.S_IMODE(status.st_mode)
        header.uid, header.gid = self._inside(status.st_uid), self._inside(status.st_gid)
        header.mtime = int(status.st_mtime)
        key = (status.st_dev, status.st_ino)
        if status.st_nlink > 1 and not header.isdir():
            if key in self._links:
                header.type, header.linkname = tarfile.LNKTYPE, self._links[key]
                return header
            self._links[key] = name
        if header.isreg():
            header.size = status.st_size
        elif header.issym():
            header.linkname = os.readlink(path)
        elif header.isdev():
            header.devmajor, header.devminor = os.major(status.st_rdev), os.minor(status.st_rdev)
        header.pax_headers = {
            f"SCHILY.xattr.{name}": self._attribute(path, name).decode("utf-8", "surrogateescape")
            for name in os.listxattr(path, follow_symlinks=False)
            if not name.startswith(_OVERLAYS) and is_text(name)
        }
        return header

    def _attribute(self, path: str, name: str) -> bytes:
        """Return the extended attribute's value, with ids mapped into the pod's user namespace."""
        value = os.getxattr(path, name, follow_symlinks=False)
        if name == _CAPABILITY and len(value) == _OF_NAMESPACE.size:
            magic, *sets, root = _OF_NAMESPACE.unpack(value)
            if root == self._shift:
                return struct.pack("<5I", magic & 0xFFFFFF | _OF_ROOT, *sets)
        if name in _ACCESS_LISTS:
            entries = [
                (tag, rights, self._inside(number) if tag in _NAMED else number)
                for tag, rights, number in _ENTRY.iter_unpack(value[4:])
            ]
            return value[:4] + b"".join(_ENTRY.pack(*entry) for entry in entries)
        return value


def _is_opaque(path: str) -> bool:
    try:
        return os.getxattr(path, "trusted.overlay.opaque", follow_symlinks=False) == b"y"
    except OSError:
        return False


def _empty(name: str) -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.mode = 0o600
    return header
