"""Write, recognise and remove the files of `ociruntime setup` in the engines' directories.

Only files that ociruntime wrote are changed.  The first line of such a file says so; a JSON file
cannot have a comment, so its exact text identifies it.  A directory is refused if users other than
root and the caller can change it.  Symbolic links are not followed.
"""

from __future__ import annotations

import enum
import errno
import os
import stat
from collections.abc import Callable

from ociruntime.base.errors import HostError
from ociruntime.base.files import remove_file, replace_file, sync_directory
from ociruntime.base.trusted_directories import check_directory, make_directory

MARK = '# Written by "ociruntime setup'
WITH_DIRECTORY = "# Its directory was made for it, and is removed with it if it is empty."
KIND = "configuration directory"
_LARGEST = 1 << 20
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


class Owner(enum.Enum):
    """The author of a file in an engine's configuration directory."""

    NOBODY = "does not exist"
    OURS = "written by this command"
    OTHERS = "not written by this command"


def header(engine: str) -> str:
    """Return the first line of the file for ``engine``: it says that ociruntime wrote the file."""
    return f'{MARK} {engine}", and removed by "ociruntime setup {engine} --undo".'


def read(path: str) -> str | None:
    """Return the text of a file: "" if it is not a regular file, None if it does not exist.

    Raises HostError if the file cannot be read.
    """
    try:
        fd = os.open(path, _FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            return ""
        raise HostError(f'open "{path}"', error) from None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return ""
        with open(fd, "rb", closefd=False) as file:
            return file.read(_LARGEST).decode("utf-8", "surrogateescape")
    except OSError as error:
        raise HostError(f'read "{path}"', error) from None
    finally:
        os.close(fd)


def has_mark(text: str) -> bool:
    """Return whether the first line of a file's text says that ociruntime wrote it."""
    return text.startswith(MARK)


def owner(path: str, is_ours: Callable[[str], bool] = has_mark) -> Owner:
    """Return who wrote the file ``path``; ``is_ours`` tells from the text whether ociruntime did.

    Raises HostError if the file cannot be read.
    """
    text = read(path)
    if text is None:
        return Owner.NOBODY
    return Owner.OURS if is_ours(text) else Owner.OTHERS


def put(path: str, text: str, engine: str) -> bool:
    """Write the configuration file ``path``; return False if it already had that text.

    The caller must have checked that the file does not exist, or that ociruntime wrote it.
    ``header(engine)`` becomes the first line, unless ``engine`` is "".  Raises HostError if the
    file cannot be written, or if another user can change the directory.
    """
    directory = os.path.dirname(path)
    before = read(path)
    made = make_directory(directory, 0o755, KIND)
    if engine:
        made = made or (before or "").splitlines()[1:2] == [WITH_DIRECTORY]
        text = "\n".join([header(engine), *([WITH_DIRECTORY] * made), "", text])
    if text == before:
        return False
    try:
        replace_file(path, text.encode(), 0o644, lasting=True)
        sync_directory(directory)
    except OSError as error:
        raise HostError(f'write "{path}"', error) from None
    return True


def remove(path: str) -> None:
    """Remove the file that ``put`` wrote, and the file's directory if ``put`` created it.

    Keeps a directory that is not empty.  Raises HostError if the file or the directory cannot be
    removed, or if another user can change the directory.
    """
    directory = os.path.dirname(path)
    check_directory(directory, KIND)
    with_directory = (read(path) or "").splitlines()[1:2] == [WITH_DIRECTORY]
    try:
        remove_file(path)
        if with_directory:
            try:
                os.rmdir(directory)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY):
                    raise
    except OSError as error:
        raise HostError(f'remove "{path}"', error) from None
