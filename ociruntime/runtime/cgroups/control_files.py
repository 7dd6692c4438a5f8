"""Reading and writing of control files, and explanations of the kernel's errors.

A control file takes each write(2) as one command, so nothing is ever split.
"""

from __future__ import annotations

import errno
import posix

from ociruntime.base.errors import ConfigError, HostError
from ociruntime.base.linux import S_IFDIR, S_IFMT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ociruntime.runtime.cgroups.setting import Setting

_FIRST_USER_NAMESPACE = 0xEFFFFFFD  # PROC_USER_INIT_INO, include/linux/proc_ns.h

# An open cgroup file whose cgroup was removed returns ENODEV.
GONE = (errno.ENOENT, errno.ENODEV, errno.ESRCH)


def read(path: str) -> str:
    """Return the contents of a control file.  Raises OSError."""
    fd = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        data = b""
        while piece := posix.read(fd, 65536):  # the kernel gives lists in pieces below a page
            data += piece
    finally:
        posix.close(fd)
    return data.decode("utf-8", "surrogateescape")


def write(path: str, value: str) -> None:
    """Write ``value`` to a control file with one system call.  Raises OSError (EIO if short)."""
    data = value.encode("utf-8", "surrogateescape")
    fd = posix.open(path, posix.O_WRONLY | posix.O_CLOEXEC)
    try:
        if posix.write(fd, data) != len(data):
            raise OSError(errno.EIO, "short write", path)
    finally:
        posix.close(fd)


def is_directory(path: str) -> bool:
    """Return whether ``path`` is a directory; False if it does not exist."""
    try:
        return posix.stat(path).st_mode & S_IFMT == S_IFDIR
    except OSError:
        return False


def apply(found: Sequence[Setting], directories: Mapping[str, str]) -> None:
    """Write all settings in order; ``directories`` maps a controller to its directory.

    Coupled settings that the kernel refuses are retried after the others that they are coupled
    with, as long as that helps.  Raises ConfigError (no such file, below current usage) or
    HostError.
    """
    waiting = list(found)
    while waiting:
        first = waiting.pop(0)
        group = [first]
        if first.coupled:
            group += [other for other in waiting if other.coupled == first.coupled]
            waiting = [other for other in waiting if other.coupled != first.coupled]
        _apply_group(group, directories[first.controller])


def _apply_group(group: list[Setting], directory: str) -> None:
    while group:
        refused: list[Setting] = []
        reasons: list[OSError] = []
        for setting in group:
            try:
                _write_setting(setting, directory)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise _explain(setting, directory, error) from None
                refused.append(setting)
                reasons.append(error)
        if len(refused) == len(group):
            raise _explain(refused[0], directory, reasons[0])
        group = refused


def _write_setting(setting: Setting, directory: str) -> None:
    if setting.floor:
        check_floor(setting, directory)
    for file, value in setting.files:
        path = f"{directory}/{file}"
        try:
            first = read(path).split()[0] + " " if setting.keep_first else ""
            for line in value.splitlines() or ["\n"]:  # an empty write would be ignored
                write(path, first + line)
        except FileNotFoundError:
            continue
        return
    if setting.optional:
        return
    if not is_directory(directory):
        raise FileNotFoundError(errno.ENOENT, posix.strerror(errno.ENOENT), directory)
    names = " or ".join(file for file, _ in setting.files)
    raise ConfigError(setting.where, f"the kernel has no control file {names}")


def check_floor(setting: Setting, directory: str) -> None:
    """Refuse a limit below the current usage (checkBeforeUpdate): it would trigger the OOM killer.

    Raises ConfigError, HostError.
    """
    value = setting.files[0][1]
    try:
        usage = int(read(f"{directory}/{setting.floor}"))
    except OSError as error:
        raise failure(f"{setting.where}: read {directory}/{setting.floor}", error) from None
    if value.isdigit() and int(value) < usage:
        raise ConfigError(setting.where, f"{value} is below the current usage of {usage} bytes")


def _explain(setting: Setting, directory: str, error: OSError) -> HostError:
    names = [file for file, _ in setting.files if posix.access(f"{directory}/{file}", posix.F_OK)]
    file, value = setting.files[0]
    for name, candidate in setting.files:
        if names and name == names[0]:
            file, value = name, candidate
    action = f'{setting.where}: write "{value}" to {directory}/{file}'
    return HostError(action, error, _hint(file, directory, error.errno or 0))


def _hint(file: str, directory: str, number: int) -> str:
    if number in (errno.EACCES, errno.EPERM, errno.EROFS) and not file.startswith("cpuset."):
        return "this process may not change that cgroup"
    if number == errno.ENODEV:
        return "the host has no device or interface of that name"
    if number in GONE:
        return "the cgroup was removed by another process"
    for prefix, numbers, hint in _HINTS:
        if file.startswith(prefix) and number in numbers:
            return hint(directory) if callable(hint) else hint
    return ""


def _memory_in_use(directory: str) -> str:
    for file in ("memory.usage_in_bytes", "memory.current"):
        try:
            return f"too low: the cgroup uses {read(f'{directory}/{file}').strip()} bytes already"
        except OSError:
            continue
    return ""


def _parent_offers(directory: str) -> str:
    words = []
    for kind in ("cpus", "mems"):
        for file in (f"cpuset.{kind}", f"cpuset.{kind}.effective"):
            try:
                value = read(f"{directory.rpartition('/')[0]}/{file}").strip()
            except OSError:
                continue
            if value:
                words.append(f"{kind} {value}")
                break
    return "the parent cgroup offers " + ", ".join(words) if words else ""


_HINTS: tuple[tuple[str, tuple[int, ...], str | Callable[[str], str]], ...] = (
    ("memory.memsw", (errno.EINVAL,), "memory+swap may not be less than memory"),
    ("memory.", (errno.EBUSY,), _memory_in_use),
    ("memory.use_hierarchy", (errno.EINVAL,), "the kernel always accounts hierarchically"),
    ("memory.kmem", (errno.ENOTSUP, errno.EINVAL), "the kernel no longer limits kernel memory"),
    ("cpuset.", (errno.EINVAL, errno.EACCES, errno.ERANGE, errno.ENOSPC), _parent_offers),
    (
        "cpu.rt_",
        (errno.EINVAL, errno.EBUSY),
        "realtime time must first be given to the parent cgroup, and fit into it",
    ),
    (
        "cpu.cfs_",
        (errno.EINVAL,),
        "quota 1000 us and up, period 1000 to 1000000 us, burst up to the quota",
    ),
    (
        "cpu.max",
        (errno.EINVAL,),
        "quota 1000 us and up, period 1000 to 1000000 us, burst up to the quota",
    ),
    ("cpu.weight", (errno.EINVAL,), "a cgroup with cpu.idle 1 has no weight"),
    ("cpu.shares", (errno.EINVAL,), "a cgroup with cpu.idle 1 has no shares"),
    ("rdma.max", (errno.EINVAL,), "is there such an RDMA device?"),
    ("pids.max", (errno.EINVAL,), "a number from 0 to the kernel's largest pid"),
)


def in_user_namespace() -> bool:
    """Return whether this process is in a nested user namespace.

    The namespace's inode decides, not uid_map: a nested namespace can map all ids, too.
    """
    path = "/proc/self/ns/user"
    try:
        return posix.stat(path).st_ino != _FIRST_USER_NAMESPACE
    except OSError as error:
        raise HostError(f"look at {path}", error) from None


def may_set_device_rules() -> bool:
    """Return whether device rules can be set: only by root of the initial user namespace.

    For other users, ``delegation.py`` has already checked the rules.
    """
    return posix.geteuid() == 0 and not in_user_namespace()


def gone(error: OSError) -> bool:
    """Return whether the error means that the cgroup or the process no longer exists."""
    return error.errno in GONE


def failure(action: str, error: OSError, hint: str = "") -> HostError:
    """Return a HostError, with a hint for errors that any cgroup operation can meet."""
    if not hint and error.errno == errno.EROFS:
        hint = "the cgroup file system is mounted read-only here"
    elif not hint and error.errno in (errno.EACCES, errno.EPERM):
        hint = "this process may not manage cgroups there"
    return HostError(action, error, hint)


UNLIMITED = 0xFFFFFFFFFFFFFFFF  # runc's value for "max"


def text(directory: str, file: str) -> str:
    """Return a file's content; "" if it cannot be read, as the container may exit at any time."""
    try:
        return read(f"{directory}/{file}")
    except OSError:
        return ""


def number(directory: str, file: str) -> int:
    """Return the number in a file; UNLIMITED for ``max``, 0 if the file is missing."""
    word = text(directory, file).strip()
    if word == "max":
        return UNLIMITED
    return int(word) if word.lstrip("-").isdigit() else 0


def keyed(directory: str, file: str) -> dict[str, int]:
    """Parse a flat-keyed file: a name and a number in each line."""
    found = {}
    for line in text(directory, file).splitlines():
        name, _, value = line.partition(" ")
        if value.isdigit():
            found[name] = int(value)
    return found


def without_zeros(values: dict[str, int]) -> dict[str, int]:
    """Drop the members whose value is 0, as runc does."""
    return {name: value for name, value in values.items() if value}


def page_sizes(directory: str, ending: str) -> list[str]:
    """Return the page sizes for which ``hugetlb.SIZE.ENDING`` exists, sorted."""
    try:
        names = posix.listdir(directory)
    except OSError:
        return []
    split = [name.split(".", 2) for name in names]
    return sorted({parts[1] for parts in split if parts[0] == "hugetlb" and parts[2:] == [ending]})
