"""Set owner, mode, times and extended attributes of a file in a tree."""

from __future__ import annotations

import errno
import os
import stat

from ociruntime.images.tar.header import Header

_CAPABILITY = "security.capability"
_ACL = ("system.posix_acl_access", "system.posix_acl_default")
_USER = "user."
# overlayfs interprets these attributes, so an image could use them to change how it is mounted.
_OVERLAY = ("user.overlay.", "trusted.overlay.")
_MOST_NOTES = 100
_NOT_HERE = (errno.EOPNOTSUPP, errno.EPERM)


class Notes:
    """Reports of what could not be unpacked, with one line per reason, not per file.

    Attribute names come from the image and may be numerous: after a limit they are only counted.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], tuple[str, int]] = {}

    def add(self, what: str, why: str, name: str) -> None:
        """Report that ``what`` was left out of the file ``name``."""
        if len(self._found) >= _MOST_NOTES and (what, why) not in self._found:
            what, why = "further extended attributes", "too many to list"
        example, count = self._found.get((what, why), (name, 0))
        self._found[what, why] = (example, count + 1)

    def lines(self) -> list[str]:
        """Return the reports as lines for a log."""
        return [
            f'left out {what} of "{example}"'
            + (f" and {count - 1} others" if count > 1 else "")
            + f": {why}"
            for (what, why), (example, count) in self._found.items()
        ]


def refusal(attribute: str) -> str:
    """Return why an extended attribute is refused, "" if it is allowed."""
    if attribute.startswith(_OVERLAY):
        return "it would change how the image is mounted"
    if attribute == _CAPABILITY or attribute in _ACL or attribute.startswith(_USER):
        return ""
    return "the host gives it to files itself"


def is_text(attribute: str) -> bool:
    """Return whether the name is UTF-8; the kernel allows any bytes, but pax headers do not."""
    try:
        attribute.encode()
    except UnicodeEncodeError:
        return False
    return True


def set_of_open(fd: int, header: Header, notes: Notes) -> None:
    """Set everything except the times of a regular file or directory.  Raises OSError.

    The order matters: chown(2) clears setuid bits and capabilities.
    """
    os.fchown(fd, header.uid, header.gid)
    _set_attributes(fd, header, notes)
    os.fchmod(fd, header.mode)


def set_by_name(directory: int, name: bytes, header: Header, notes: Notes, *, link: bool) -> None:
    """Set everything of a new device, FIFO or (``link``) symbolic link.

    Raises OSError.
    """
    os.chown(name, header.uid, header.gid, dir_fd=directory, follow_symlinks=False)
    if header.xattrs:
        _set_attributes(b"/proc/self/fd/%d/%s" % (directory, name), header, notes)
    if not link:
        _chmod(directory, name, header.mode)
    set_time(directory, name, header.mtime)


def _chmod(directory: int, name: bytes, mode: int) -> None:
    """Change the mode of ``name`` without following links; no chmod(2) flag does that."""
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        if stat.S_ISLNK(os.fstat(fd).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        os.chmod(f"/proc/self/fd/{fd}", mode)
    finally:
        os.close(fd)


def set_time(directory: int, name: bytes, mtime: int) -> None:
    """Set both times, in nanoseconds, of the file or link itself.  Raises OSError."""
    os.utime(name, ns=(mtime, mtime), dir_fd=directory, follow_symlinks=False)


def _set_attributes(file: int | bytes, header: Header, notes: Notes) -> None:
    """Set the header's extended attributes and remove all others that an image can have.

    Others come from a lower layer's directory, or (ACLs) from the parent directory's default.
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
                if error.errno not in _NOT_HERE:
                    raise
                why = f"{error.strerror} here"
        if why:
            notes.add(f"the extended attribute {name}", why, header.shown())
