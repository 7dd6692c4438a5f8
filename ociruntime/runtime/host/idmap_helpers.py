"""newuidmap(1) and newgidmap(1): id ranges for an ordinary user, and why they refuse one."""

from __future__ import annotations

import posix

from ociruntime.base.errors import ConfigError, HostError, StepError
from ociruntime.base.programs import DIRECTORIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ociruntime.runtime.host.idmap import Kind

SET_USER_ID = 0o4000
PACKAGES = 'package "uidmap" on Debian and Ubuntu, "shadow-utils" on Fedora'


def run_helper(kind: Kind, pid: int, numbers: list[str]) -> None:
    """Run the helper to write ``numbers`` (containerID, hostID, size, ...) as the map of ``pid``.

    Raises ConfigError for ranges that are not the user's, HostError and StepError.
    """
    import subprocess

    program = find_helper(kind)
    try:
        done = subprocess.run(
            [program, str(pid), *numbers],
            env={},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise HostError(f"start {program}", error) from None
    if done.returncode != 0:
        raise _refusal(kind, program, numbers, " ".join(done.stderr.split()))


def find_helper(kind: Kind, directories: Sequence[str] = DIRECTORIES) -> str:
    """Return the path of the helper, without using PATH.  Raises ConfigError if it is missing."""
    for directory in directories:
        path = f"{directory}/{kind.helper}"
        if posix.access(path, posix.X_OK):
            return path
    raise ConfigError(
        kind.where,
        f"{kind.helper} is not installed, and without it an ordinary user can map his own id only",
        f"install it ({PACKAGES}), or map one id: see ociruntime spec --rootless",
    )


def _refusal(kind: Kind, program: str, numbers: list[str], said: str) -> ConfigError | StepError:
    """Return the error for a helper's refusal, with its likely cause."""
    uid = posix.getuid()
    name = user_name(uid)
    granted = granted_ranges(_content(kind.ranges), name, uid)
    own = uid if kind.name == "uid" else posix.getgid()
    for index in range(0, len(numbers), 3):
        first, size = int(numbers[index + 1]), int(numbers[index + 2])
        if not is_granted(first, size, granted, own):
            return ConfigError(
                f"{kind.where}[{index // 3}]",
                f"the {kind.name}s {first} to {first + size - 1} are not {name}'s to map:"
                f" {said or 'refused'}",
                missing_line(kind.ranges, name, first, size, granted),
            )
    hint = ""
    if not name:
        hint = f"the user {uid} is not in /etc/passwd"
    elif "NoNewPrivs:\t1" in _content("/proc/self/status"):
        hint = "no_new_privs is set here, so that the set-user-id program has no effect"
    elif not _is_privileged(program):
        hint = (
            f"{program} is neither set-user-id nor has it file capabilities:"
            f" chmod u+s {program}, or install it anew ({PACKAGES})"
        )
    return StepError(f"{kind.where}: {program}: {said or 'failed without a word'}", hint)


def missing_line(
    file: str, name: str, first: int, size: int, granted: Sequence[tuple[int, int]]
) -> str:
    """Return the line to add to /etc/subuid or /etc/subgid."""
    there = ", ".join(f"{start}:{count}" for start, count in granted) or "nothing"
    return (
        f"{file} gives {name} {there}; as root: echo {name}:{first}:{size} >>{file},"
        " where nobody else has these"
    )


def granted_ranges(text: str, name: str, uid: int) -> list[tuple[int, int]]:
    """Return the (first, count) ranges of a user in subuid(5); malformed lines are skipped."""
    found = []
    for line in text.splitlines():
        owner, _, rest = line.strip().partition(":")
        first, _, count = rest.partition(":")
        plain = rest.isascii() and first.isdigit() and count.isdigit()
        if owner in (name, str(uid)) and owner and plain:
            found.append((int(first), int(count)))
    return found


def is_granted(first: int, size: int, granted: Sequence[tuple[int, int]], own: int) -> bool:
    """Return whether newuidmap allows a range: within one granted range, or the own id alone."""
    if (first, size) == (own, 1):
        return True
    return any(start <= first and first + size <= start + count for start, count in granted)


def user_name(uid: int) -> str:
    """Return the user's name from the user database; "" if it has none."""
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
