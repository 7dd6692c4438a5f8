"""Reading and writing control files, and what the kernel's refusals mean.

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

# cgroup files vanish while they are open: ENODEV is their way to say so.
GONE = (errno.ENOENT, errno.ENODEV, errno.ESRCH)


def read(path: str) -> str:
    """The whole file.  Raises OSError."""
    fd = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        data = b""
        while piece := posix.read(fd, 65536):  # the kernel gives lists in pieces below a page
            data += piece
    finally:
        posix.close(fd)
    return data.decode("utf-8", "surrogateescape")


def write(path: str, value: str) -> None:
    """One write of ``value``.  Raises OSError; a short write is EIO."""
    data = value.encode("utf-8", "surrogateescape")
    fd = posix.open(path, posix.O_WRONLY | posix.O_CLOEXEC)
    try:
        if posix.write(fd, data) != len(data):
            raise OSError(errno.EIO, "short write", path)
    finally:
        posix.close(fd)


def is_directory(path: str) -> bool:
    """False also if there is nothing."""
    try:
        return posix.stat(path).st_mode & S_IFMT == S_IFDIR
    except OSError:
        return False


def apply(found: Sequence[Setting], directories: Mapping[str, str]) -> None:
    """Write all settings in order; ``directories`` maps a controller to its directory.

    Coupled ones that the kernel refuses are tried again after the others of their kind, as
    long as that helps.  Raises ConfigError (no such file, below current usage) or HostError.
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
            for line in value.splitlines() or ["\n"]:  # without a byte nothing is written
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
    """checkBeforeUpdate: a limit below what is used would make the kernel kill somebody."""
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
        return "the cgroup has been removed by somebody else"
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
    """By the namespace itself: a nested one may have a map that looks like the first one's."""
    return posix.stat("/proc/self/ns/user").st_ino != _FIRST_USER_NAMESPACE


def may_set_device_rules() -> bool:
    """Only the first user namespace's root may; for others see cgroups/delegation.py."""
    return posix.geteuid() == 0 and not in_user_namespace()


def gone(error: OSError) -> bool:
    """True if the error only says that the cgroup or the process is no more."""
    return error.errno in GONE


def failure(action: str, error: OSError, hint: str = "") -> HostError:
    """HostError with a hint for what a cgroup file system can say about any operation."""
    if not hint and error.errno == errno.EROFS:
        hint = "the cgroup file system is mounted read-only here"
    elif not hint and error.errno in (errno.EACCES, errno.EPERM):
        hint = "this process may not manage cgroups there"
    return HostError(action, error, hint)
