"""Look up an app's user and groups in its root filesystem, without following links out of it.

A user is a number, a name in ``/etc/passwd``, or the absolute path of a file, whose owner is used.
A group is a number, a name in ``/etc/group``, or the absolute path of a file, whose group is used.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from ociruntime.base.errors import PodError
from ociruntime.base.open_below_root import open_inside

_LONGEST_FILE = 1 << 20
_IDS = 1 << 32


class Account:
    """The UID and GIDs of an app's process, and its user's name, home and shell.

    Name, home and shell come from the image's /etc/passwd.  They have default values if the user is
    not listed there.
    """

    __slots__ = ("additional", "gid", "home", "name", "shell", "uid")

    def __init__(self, uid: int, gid: int, additional: list[int]) -> None:
        self.uid = uid
        self.gid = gid
        self.additional = additional
        self.name = "root" if uid == 0 else str(uid)
        self.home = "/root" if uid == 0 else "/"
        self.shell = ""


def account(root: str, user: str, group: str, supplementary: list[int]) -> Account:
    """Look up ``user`` and ``group`` in the root filesystem at ``root``; return the Account.

    If ``group`` is "", the process gets the user's primary group, and all groups in /etc/group that
    list the user as a member.  ``supplementary`` lists additional GIDs.  Raises PodError if a name
    or path is not found.
    """
    fd = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        rows = list(_rows(fd, "etc/passwd", 7))
        groups = list(_rows(fd, "etc/group", 4))
        uid, row = _user(fd, user, rows)
        if group:
            gid = _group(fd, group, groups)
        elif row:
            gid = int(row[3])
        else:
            gid = _owner(fd, user).st_gid if user.startswith("/") else 0
        own: list[int] = []
        if row and not group:
            own = [int(line[2]) for line in groups if row[0] in line[3].split(",")]
        # Include the primary group: otherwise a process that executes a setgid program leaves this
        # group, and so evades permissions that deny access to it (CVE-2022-36109, CVE-2023-25173).
        result = Account(uid, gid, sorted({gid, *own, *supplementary}))
        if row:
            result.name, result.home, result.shell = row[0], row[5], row[6]
        return result
    finally:
        os.close(fd)


def _user(fd: int, user: str, rows: list[list[str]]) -> tuple[int, list[str] | None]:
    if user.startswith("/"):
        uid = _owner(fd, user).st_uid
    elif _is_id(user):
        uid = int(user)
    else:
        row = next((row for row in rows if row[0] == user), None)
        if row is None:
            hint = "use a number or a name in the image's /etc/passwd"
            raise PodError(f'look up user "{user}": not found in the image', hint)
        return int(row[2]), row
    return uid, next((row for row in rows if int(row[2]) == uid), None)


def _group(fd: int, group: str, rows: list[list[str]]) -> int:
    if group.startswith("/"):
        return _owner(fd, group).st_gid
    if _is_id(group):
        return int(group)
    for row in rows:
        if row[0] == group:
            return int(row[2])
    hint = "use a number or a name in the image's /etc/group"
    raise PodError(f'look up group "{group}": not found in the image', hint)


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 11 and int(text) < _IDS


def _rows(root: int, path: str, columns: int) -> Iterator[list[str]]:
    """Yield the fields of each valid line of a passwd or group file, if the file exists.

    ``path`` is relative to ``root``, a descriptor of the root directory.  A line is invalid if it
    has fewer than ``columns`` fields, or an id that is not a valid number.
    """
    try:
        fd = open_inside(root, path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return
    with open(fd, "rb") as file:
        text = file.read(_LONGEST_FILE).decode("utf-8", "surrogateescape")
    for line in text.split("\n"):
        row = line.rstrip("\r").split(":")
        ids = row[2:4] if columns == 7 else row[2:3]
        if len(row) >= columns and all(_is_id(text) for text in ids):
            yield row


def _owner(root: int, path: str) -> os.stat_result:
    try:
        fd = open_inside(root, path, os.O_PATH)
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise PodError(f'look up the owner of "{path}" in the image: {reason}') from error
    try:
        return os.fstat(fd)
    finally:
        os.close(fd)
