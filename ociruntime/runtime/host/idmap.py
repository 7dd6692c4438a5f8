"""Write the id maps of a new user namespace (user_namespaces(7)).

Root writes the maps directly; root of a user namespace can do so for ids that are mapped there.  An
unprivileged user may map only their own id. For them, newuidmap(1) and newgidmap(1) write maps with
the ranges that /etc/subuid and /etc/subgid grant.
"""

from __future__ import annotations

import errno
import posix
from collections.abc import Sequence

from ociruntime.base.errors import ConfigError, HostError, StepError
from ociruntime.base.host_programs import DIRECTORIES
from ociruntime.runtime.spec.config_types import IdMapping


class Kind:
    """The names that differ between a uid map and a gid map: files, helper program, JSON path."""

    __slots__ = ("helper", "map", "name", "ranges", "where")

    def __init__(self, name: str) -> None:
        self.name = name
        self.map = f"{name}_map"
        self.helper = f"new{name}map"
        self.ranges = f"/etc/sub{name}"
        self.where = f"linux.{name}Mappings"


UID = Kind("uid")
GID = Kind("gid")


def write_maps(pid: int, uids: list[IdMapping], gids: list[IdMapping]) -> None:
    """Write the uid and gid maps of the user namespace that process ``pid`` has created.

    Raises ConfigError for ids that this user may not map, HostError or StepError if a map cannot be
    written for another reason.
    """
    if posix.geteuid() == 0:
        _write_map(pid, GID, gids)
        _write_map(pid, UID, uids)
        return
    if is_own_id(gids, posix.getegid()):
        # Without privileges, setgroups(2) must be denied first (CVE-2014-8989).
        _write(pid, "setgroups", "deny")
        _write_map(pid, GID, gids)
    else:
        _ask_helper(pid, GID, gids)
    if is_own_id(uids, posix.geteuid()):
        _write_map(pid, UID, uids)
    else:
        _ask_helper(pid, UID, uids)


def is_own_id(mappings: list[IdMapping], own: int) -> bool:
    """Return whether ``mappings`` map only the host id ``own``: this needs no privileges."""
    return len(mappings) == 1 and mappings[0]["size"] == 1 and mappings[0]["hostID"] == own


def _ask_helper(pid: int, kind: Kind, mappings: list[IdMapping]) -> None:
    """Write an id map with newuidmap(1) or newgidmap(1).

    Raises the same errors as ``run_helper``.
    """
    numbers = [str(entry[key]) for entry in mappings for key in ("containerID", "hostID", "size")]
    run_helper(kind, pid, numbers)


def _write_map(pid: int, kind: Kind, mappings: list[IdMapping]) -> None:
    text = "".join(
        f"{entry['containerID']} {entry['hostID']} {entry['size']}\n" for entry in mappings
    )
    try:
        _write(pid, kind.map, text)
    except HostError as error:
        if error.errno == errno.EPERM and (index := _unmapped(kind, mappings)) >= 0:
            entry = mappings[index]
            raise ConfigError(
                f"{kind.where}[{index}]",
                f"the ids {entry['hostID']} to {entry['hostID'] + entry['size'] - 1} are not all"
                f" mapped in the user namespace that ociruntime runs in: {error.message}",
                f"use a range of host ids that is mapped in /proc/self/{kind.map}",
            ) from None
        raise


def _unmapped(kind: Kind, mappings: list[IdMapping]) -> int:
    """Return the index of the first mapping whose host ids are not mapped in our user namespace.

    Returns -1 if all host ids are mapped.
    """
    try:
        with open(f"/proc/self/{kind.map}", encoding="ascii") as file:
            own = [[int(field) for field in line.split()] for line in file]
    except OSError:
        return -1
    for index, entry in enumerate(mappings):
        first, end = entry["hostID"], entry["hostID"] + entry["size"]
        if not any(start <= first and end <= start + size for start, _, size in own):
            return index
    return -1


def _write(pid: int, name: str, text: str) -> None:
    path = f"/proc/{pid}/{name}"
    try:
        fd = posix.open(path, posix.O_WRONLY | posix.O_CLOEXEC)
        try:
            # Write the map with one write(2): the kernel accepts only a complete map.
            posix.write(fd, text.encode())
        finally:
            posix.close(fd)
    except OSError as error:
        raise HostError(f'write "{path}" of the new user namespace', error) from None


SET_USER_ID = 0o4000
PACKAGES = 'package "uidmap" on Debian and Ubuntu, "shadow-utils" on Fedora'


def run_helper(kind: Kind, pid: int, numbers: list[str]) -> None:
    """Run newuidmap or newgidmap to write a map of process ``pid``.

    ``numbers`` lists containerID, hostID and size of each range, one after the other.

    Raises ConfigError if the program is not installed, or a range is not granted to the user;
    HostError if the program cannot be started; StepError if it fails for another reason.
    """
    import subprocess

    program = find_helper(kind)
    try:
        result = subprocess.run(
            [program, str(pid), *numbers],
            env={},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise HostError(f'start "{program}"', error) from None
    if result.returncode != 0:
        raise _refusal(kind, program, numbers, " ".join(result.stderr.split()))


def find_helper(kind: Kind, directories: Sequence[str] = DIRECTORIES) -> str:
    """Return the path of newuidmap or newgidmap in one of ``directories``; do not search PATH.

    Raises ConfigError if the program is not installed.
    """
    for directory in directories:
        path = f"{directory}/{kind.helper}"
        if posix.access(path, posix.X_OK):
            return path
    raise ConfigError(
        kind.where,
        f"{kind.helper} is not installed, and without it an unprivileged user can map only their"
        " own id",
        f"install {PACKAGES}, or map one id as `ociruntime spec --rootless` does",
    )


def _refusal(kind: Kind, program: str, numbers: list[str], stderr: str) -> ConfigError | StepError:
    """Return the error for a failure of newuidmap or newgidmap, with the likely cause."""
    uid = posix.getuid()
    name = user_name(uid)
    granted = granted_ranges(_content(kind.ranges), name, uid)
    own = uid if kind.name == "uid" else posix.getgid()
    for index in range(0, len(numbers), 3):
        first, size = int(numbers[index + 1]), int(numbers[index + 2])
        if not is_granted(first, size, granted, own):
            return ConfigError(
                f"{kind.where}[{index // 3}]",
                f"{kind.name}s {first} to {first + size - 1}: user {name} may not map them:"
                f" {stderr or 'refused'}",
                missing_line(kind.ranges, name, first, size, granted),
            )
    hint = ""
    if not name:
        hint = f"uid {uid} has no entry in /etc/passwd"
    elif "NoNewPrivs:\t1" in _content("/proc/self/status"):
        hint = "no_new_privs is set: setuid programs gain no privileges"
    elif not _is_privileged(program):
        hint = (
            f"{program} is not setuid and has no file capabilities:"
            f" chmod u+s {program}, or reinstall it ({PACKAGES})"
        )
    return StepError(f"{kind.where}: {program}: {stderr or 'failed without a message'}", hint)


def missing_line(
    file: str, name: str, first: int, size: int, granted: Sequence[tuple[int, int]]
) -> str:
    """Return the remedy for a missing range: the line to add to /etc/subuid or /etc/subgid.

    ``granted`` lists the ranges that ``file`` already grants to the user ``name``.
    """
    ranges = ", ".join(f"{start}:{count}" for start, count in granted) or "no range"
    return (
        f"{file} grants {name} {ranges}; as root: echo {name}:{first}:{size} >>{file},"
        " with a range that no other user has"
    )


def granted_ranges(text: str, name: str, uid: int) -> list[tuple[int, int]]:
    """Return a user's ranges in the text of a subuid(5) file, as (first id, count)."""
    ranges = []
    for line in text.splitlines():
        owner, _, numbers = line.strip().partition(":")
        first, _, count = numbers.partition(":")
        well_formed = numbers.isascii() and first.isdigit() and count.isdigit()
        if owner in (name, str(uid)) and owner and well_formed:
            ranges.append((int(first), int(count)))
    return ranges


def is_granted(first: int, size: int, granted: Sequence[tuple[int, int]], own: int) -> bool:
    """Return whether newuidmap(1) allows a range: it is granted, or ``own`` is its only id."""
    if (first, size) == (own, 1):
        return True
    end = first + size
    for start, count in sorted(granted):
        if start <= first < start + count:
            first = start + count  # adjacent ranges count as one
    return first >= end


def user_name(uid: int) -> str:
    """Return a user's name from the user database; "" if the uid has none."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""


def _is_privileged(program: str) -> bool:
    try:
        mode = posix.stat(program)
        if mode.st_mode & SET_USER_ID and mode.st_uid == 0:
            return True
        return bool(posix.getxattr(program, "security.capability"))
    except OSError:
        return False


def _content(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
