"""Set the owner, mode, times and extended attributes of an unpacked file."""

from __future__ import annotations

import errno
import os
import stat

from ociruntime.base.errors import reason
from ociruntime.images.tar.tar_header import Header

CAPABILITY = "security.capability"
ACL = ("system.posix_acl_access", "system.posix_acl_default")
_USER = "user."
# overlayfs interprets these attributes: an image could change its own mount with them.
_OVERLAY = ("user.overlay.", "trusted.overlay.")
_MOST_WARNINGS = 100
_UNSUPPORTED = (errno.EOPNOTSUPP, errno.EPERM)  # not possible on this filesystem or userns


class AttributeWarnings:
    """Collect warnings about attributes that were not set: one line for each attribute and reason.

    An image can use any number of attribute names, so the number of lines is limited; the last line
    then stands for all further attributes.
    """

    def __init__(self) -> None:
        self._files: dict[tuple[str, str], tuple[str, int]] = {}  # first file, number of files

    def add(self, what: str, why: str, name: str) -> None:
        """Record that the attribute ``what`` of the file ``name`` was not set; ``why`` says why."""
        if len(self._files) >= _MOST_WARNINGS and (what, why) not in self._files:
            what, why = "further extended attributes", "too many to list"
        first, count = self._files.get((what, why), (name, 0))
        self._files[what, why] = (first, count + 1)

    def lines(self) -> list[str]:
        """Return the warnings: lines of the form ``ignored X of "FILE" and N more: WHY``."""
        return [
            f'ignored {what} of "{first}"'
            + (f" and {count - 1} more" if count > 1 else "")
            + f": {why}"
            for (what, why), (first, count) in self._files.items()
        ]


def refusal(attribute: str) -> str:
    """Return why an image may not set an extended attribute; "" if it may."""
    if attribute.startswith(_OVERLAY):
        return "overlayfs would interpret the attribute"
    if attribute == CAPABILITY or attribute in ACL or attribute.startswith(_USER):
        return ""
    return "the attribute is part of the host's security policy"


def is_text(attribute: str) -> bool:
    """Return whether an extended attribute's name is valid UTF-8, as pax headers require."""
    try:
        attribute.encode()
    except UnicodeEncodeError:
        return False
    return True


def set_of_open(fd: int, header: Header, warnings: AttributeWarnings) -> None:
    """Set the owner, extended attributes and mode of an open file or directory, as in ``header``.

    Sets them in this order, because chown(2) clears setuid bits and capabilities.  An extended
    attribute that is not allowed or not supported only causes a warning.  Raises OSError for any
    other failure.
    """
    os.fchown(fd, header.uid, header.gid)
    _set_attributes(fd, header, warnings)
    os.fchmod(fd, header.mode)


def set_by_name(
    directory: int, name: bytes, header: Header, warnings: AttributeWarnings, *, link: bool
) -> None:
    """Set the owner, xattrs, mode and mtime of the file ``name``, as in ``header``.

    The file is in the directory ``directory`` (a descriptor).  It is a device, a FIFO or, if
    ``link`` is set, a symbolic link.  An extended attribute that is not allowed or not supported
    only causes a warning.  Raises OSError for any other failure.
    """
    os.chown(name, header.uid, header.gid, dir_fd=directory, follow_symlinks=False)
    if header.xattrs:
        _set_attributes(b"/proc/self/fd/%d/%s" % (directory, name), header, warnings)
    if not link:
        _chmod(directory, name, header.mode)
    set_time(directory, name, header.mtime)


def _chmod(directory: int, name: bytes, mode: int) -> None:
    """Change the mode of ``name`` in the open directory ``directory``; refuse symbolic links.

    fchmodat(2) cannot refuse a symbolic link, so this function uses a descriptor with O_PATH.
    Raises OSError.
    """
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        if stat.S_ISLNK(os.fstat(fd).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        os.chmod(f"/proc/self/fd/{fd}", mode)
    finally:
        os.close(fd)


def set_time(directory: int, name: bytes, mtime: int) -> None:
    """Set a file's atime and mtime to ``mtime`` (nanoseconds), without following symbolic links.

    The file is ``name`` in the directory ``directory`` (a descriptor).  Raises OSError if
    utimensat(2) fails.
    """
    os.utime(name, ns=(mtime, mtime), dir_fd=directory, follow_symlinks=False)


def _set_attributes(file: int | bytes, header: Header, warnings: AttributeWarnings) -> None:
    """Set the header's extended attributes on a file; remove other attributes that images may set.

    The file can have such attributes if it is a directory of a lower layer, or because of its
    parent's default ACL.  Raises OSError.
    """
    follow = isinstance(file, int)
    try:
        present = os.listxattr(file, follow_symlinks=follow)
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        present = []
    for name in present:
        if name not in header.xattrs and not refusal(name):
            os.removexattr(file, name, follow_symlinks=follow)
    for name, value in header.xattrs.items():
        why = refusal(name)
        if not why:
            try:
                os.setxattr(file, name, value, follow_symlinks=follow)
            except OSError as error:
                if error.errno not in _UNSUPPORTED:
                    raise
                why = reason(error)
        if why:
            warnings.add(f"the extended attribute {name}", why, header.shown())
