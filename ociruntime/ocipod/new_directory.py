"""Directories and files that a command makes for its user: whole, or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from ociruntime.errors import HostError, UsageError


def check_target(target: str, data: str, *, overwrite: bool) -> str:
    """``target`` as an absolute path, if a directory may be put there.

    ``data`` is the directory of pods and images.  Raises UsageError.
    """
    path = os.path.realpath(target)
    for kept in (data, os.getcwd(), "/"):
        if os.path.commonpath([path, os.path.realpath(kept)]) == path:
            what = "is the root directory" if path == "/" else f'"{kept}" is in it, or is it'
            raise UsageError(f'"{target}" cannot be replaced: {what}')
    inside = os.path.realpath(data)
    if os.path.commonpath([path, inside]) == inside:
        raise UsageError(f'"{target}" is inside of "{data}", where pods and images are')
    if os.path.ismount(path):
        raise UsageError(f'"{target}" is a mount point')
    if os.path.lexists(path) and not _is_empty_directory(path):
        if not overwrite:
            raise UsageError(f'"{target}" exists', "--overwrite replaces it")
        if not os.path.isdir(path):
            raise UsageError(f'"{target}" is no directory')
    return path


def put_directory(path: str, fill: Callable[[str], None]) -> None:
    """Makes a directory at ``path`` (checked), which ``fill`` is to fill; replaces what is there.

    It takes its place when all is done.  Raises HostError, and whatever ``fill`` raises; then
    nothing has changed.
    """
    import shutil

    temporary = f"{os.path.dirname(path)}/.{os.path.basename(path)[:200]}.{secrets.token_hex(6)}"
    try:
        os.mkdir(temporary, 0o755)
        try:
            fill(temporary)
            if _is_empty_directory(path):
                os.rmdir(path)
            elif os.path.lexists(path):
                old = f"{temporary}.old"
                os.rename(path, old)
                try:
                    os.rename(temporary, path)
                except BaseException:
                    os.rename(old, path)
                    raise
                shutil.rmtree(old)
                return
            os.rename(temporary, path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    except OSError as error:
        raise HostError(f'make the directory "{path}"', error) from None


@contextmanager
def new_file(target: str, *, overwrite: bool) -> Iterator[BinaryIO]:
    """A file that appears as ``target`` when the context ends well; ``-`` is standard output.

    Raises UsageError, HostError.
    """
    if target == "-":
        yield open(1, "wb", closefd=False)
        return
    path = os.path.abspath(target)
    if os.path.isdir(path):
        raise UsageError(f'"{target}" is a directory')
    if os.path.lexists(path) and not overwrite:
        raise UsageError(f'"{target}" exists', "--overwrite replaces it")
    temporary = f"{os.path.dirname(path)}/.{os.path.basename(path)[:200]}.{secrets.token_hex(6)}"
    try:
        with open(temporary, "xb") as file:
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
                os.rename(temporary, path)
            except BaseException:
                os.unlink(temporary)
                raise
    except OSError as error:
        raise HostError(f'write "{target}"', error) from None


def _is_empty_directory(path: str) -> bool:
    try:
        return not os.path.islink(path) and not os.listdir(path)
    except OSError:
        return False
