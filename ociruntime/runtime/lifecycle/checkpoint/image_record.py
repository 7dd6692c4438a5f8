"""The file ``ociruntime.json`` of a checkpoint: data for `restore` that CRIU's images lack.

    version        1
    mounts         {key: [name, target, options]} for each mount from the host: its name in
                   config.json (external_mounts.py), and its target and options in mountinfo
    streams        for descriptors 0, 1 and 2 of the init: the key by which CRIU can replace the
                   descriptor with another one; "" if the file belongs to the container
    namespaces     the types of the namespaces that were joined by a path

The file is untrusted input.
"""

from __future__ import annotations

import os
from typing import Any, TypeGuard

from ociruntime.base.errors import ContainerError, HostError
from ociruntime.base.files import read_file, replace_file
from ociruntime.base.json_text import dump, parse
from ociruntime.base.mountinfo import parse_mountinfo

NAME = "ociruntime.json"
VERSION = 1


class ImageRecord:
    """The content of ``ociruntime.json``; the module's docstring describes its members."""

    __slots__ = ("mounts", "namespaces", "streams")

    def __init__(
        self, mounts: dict[str, list[str]], streams: list[str], namespaces: list[str]
    ) -> None:
        self.mounts = mounts
        self.streams = streams
        self.namespaces = namespaces

    def write(self, directory: str) -> None:
        """Write ociruntime.json to the image directory.  Raises HostError."""
        document = {
            "version": VERSION,
            "mounts": self.mounts,
            "streams": self.streams,
            "namespaces": self.namespaces,
        }
        try:
            replace_file(f"{directory}/{NAME}", dump(document).encode("utf-8", "surrogateescape"))
        except OSError as error:
            raise HostError(f'write "{directory}/{NAME}"', error) from None


def read_record(directory: str) -> ImageRecord:
    """Return the content of the ociruntime.json in an image directory.

    Raises HostError if the file cannot be read, and ContainerError if it is malformed or was
    written by another version of ociruntime.
    """
    path = f"{directory}/{NAME}"
    try:
        document: Any = parse(read_file(path), path)
    except OSError as error:
        hint = "check that --image-path is the directory of a checkpoint made by ociruntime"
        raise HostError(f'read "{path}"', error, hint) from None
    if not (isinstance(document, dict) and document.get("version") == VERSION):
        raise ContainerError(
            f'read "{path}": the file was written by another version of ociruntime',
            "restore the checkpoint with the version that made it",
        )
    mounts, streams = document.get("mounts"), document.get("streams")
    namespaces = document.get("namespaces")
    if not (
        isinstance(mounts, dict)
        and all(_is_key(key) and _is_texts(m) and len(m) == 3 for key, m in mounts.items())
        and _is_texts(streams)
        and _is_texts(namespaces)
    ):
        raise ContainerError(
            f'read "{path}": the file is malformed',
            "make the checkpoint again, and do not edit its files",
        )
    return ImageRecord(mounts, streams, namespaces)


def stream_keys(pid: int) -> list[str]:
    """Return CRIU's keys for the descriptors 0, 1 and 2 of process ``pid``.

    A key is ``pipe:[INODE]`` or ``file[MOUNT:INODE]``, with the mount's id and the inode in
    hexadecimal.  It is "" for a closed descriptor, and for a file in a mount of the container.
    Raises HostError.
    """
    try:
        mounts = read_file(f"/proc/{pid}/mountinfo").decode("utf-8", "surrogateescape")
        own = {str(mount.id) for mount in parse_mountinfo(mounts)}
        return [_stream_key(pid, fd, own) for fd in (0, 1, 2)]
    except OSError as error:
        raise HostError(f"read the descriptors of process {pid}", error) from None


def _stream_key(pid: int, fd: int, own: set[str]) -> str:
    try:
        link = os.readlink(f"/proc/{pid}/fd/{fd}")
    except FileNotFoundError:
        return ""
    if link.startswith("pipe:["):
        return link
    facts = dict(
        line.split(":\t", 1)
        for line in read_file(f"/proc/{pid}/fdinfo/{fd}").decode().splitlines()
        if ":\t" in line
    )
    mount = facts.get("mnt_id", "")
    if not link.startswith("/") or mount in own:
        return ""
    inode = os.stat(f"/proc/{pid}/fd/{fd}").st_ino
    return f"file[{int(mount):x}:{inode:x}]"


def _is_key(key: object) -> bool:
    return isinstance(key, str) and key[:1] == "m" and key[1:].isdigit()


def _is_texts(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)
