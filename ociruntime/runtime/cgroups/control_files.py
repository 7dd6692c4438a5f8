"""Read and write cgroup control files, and explain the kernel's errors.

The kernel takes each write(2) to a control file as one command, so a value must not be split.
"""

from __future__ import annotations

import errno
import posix
from collections.abc import Callable, Mapping, Sequence

from ociruntime.base.errors import ConfigError, HostError
from ociruntime.base.files import read_file, whole_number
from ociruntime.base.linux import S_IFDIR, S_IFMT
from ociruntime.runtime.cgroups.shared_settings import Setting

_FIRST_USER_NAMESPACE = 0xEFFFFFFD  # PROC_USER_INIT_INO, include/linux/proc_ns.h

OOM_CONTROL = "memory.oom_control"  # of cgroup v1
# read(2) and write(2) fail with ENODEV if the file's cgroup was removed after open(2).
GONE = (errno.ENOENT, errno.ENODEV, errno.ESRCH)


def read(path: str) -> str:
    """Return the content of a control file; raise OSError if it cannot be read."""
    return read_file(path).decode("utf-8", "surrogateescape")


def write(path: str, value: str) -> None:
    """Write ``value`` to a control file with one system call.

    Raises OSError, with EIO if the kernel accepted only a part of ``value``.
    """
    data = value.encode("utf-8", "surrogateescape")
    fd = posix.open(path, posix.O_WRONLY | posix.O_CLOEXEC)
    try:
        if posix.write(fd, data) != len(data):
            raise OSError(errno.EIO, "short write", path)
    finally:
        posix.close(fd)


def is_directory(path: str) -> bool:
    """Return whether ``path`` is an existing directory."""
    try:
        return posix.stat(path).st_mode & S_IFMT == S_IFDIR
    except OSError:
        return False


def apply(settings: Sequence[Setting], directories: Mapping[str, str]) -> None:
    """Write cgroup settings to control files, in order.

    ``directories`` maps a controller to the cgroup's directory.  The kernel may refuse a coupled
    setting with EINVAL until other settings of its group are written.  Therefore the refused
    settings of a group are tried again, as long as each round writes at least one of them.

    Raises ConfigError if the kernel lacks the file of a setting, or if a memory limit is below the
    current usage.  Raises HostError if a setting cannot be written for another reason.
    """
    waiting = list(settings)
    while waiting:
        first = waiting.pop(0)
        group = [first]
        if first.coupled:
            group += [later for later in waiting if later.coupled == first.coupled]
            waiting = [later for later in waiting if later.coupled != first.coupled]
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
    raise ConfigError(setting.where, f'the kernel has no cgroup control file "{names}"')


def check_floor(setting: Setting, directory: str) -> None:
    """Raise ConfigError if a memory limit is below the current usage (``checkBeforeUpdate``).

    Such a limit would trigger the OOM killer.  Raises HostError if the usage cannot be read.
    """
    value = setting.files[0][1]
    try:
        usage = whole_number(read(f"{directory}/{setting.floor}").strip()) or 0
    except OSError as error:
        raise failure(f'{setting.where}: read "{directory}/{setting.floor}"', error) from None
    limit = whole_number(value)
    if limit is not None and limit < usage:
        raise ConfigError(
            setting.where,
            f"the limit of {value} bytes is below the current memory usage of {usage} bytes",
        )


def _explain(setting: Setting, directory: str, error: OSError) -> HostError:
    names = [file for file, _ in setting.files if posix.access(f"{directory}/{file}", posix.F_OK)]
    file, value = setting.files[0]
    for name, candidate in setting.files:
        if names and name == names[0]:
            file, value = name, candidate
    action = f'{setting.where}: write "{value}" to "{directory}/{file}"'
    return HostError(action, error, _hint(file, directory, error.errno or 0))


def _hint(file: str, directory: str, number: int) -> str:
    if number in (errno.EACCES, errno.EPERM, errno.EROFS) and not file.startswith("cpuset."):
        return "the caller has no permission to change this cgroup"
    if number == errno.ENODEV:
        return "the host has no such device or network interface"
    if number in GONE:
        return "the cgroup was removed by another process"
    for prefix, numbers, hint in _HINTS:
        if file.startswith(prefix) and number in numbers:
            return hint(directory) if callable(hint) else hint
    return ""


def _memory_in_use(directory: str) -> str:
    for file in ("memory.usage_in_bytes", "memory.current"):
        try:
            return f"limit too low: the cgroup uses {read(f'{directory}/{file}').strip()} bytes"
        except OSError:
            continue
    return ""


def _parent_offers(directory: str) -> str:
    ranges = []
    for kind in ("cpus", "mems"):
        for file in (f"cpuset.{kind}", f"cpuset.{kind}.effective"):
            try:
                value = read(f"{directory.rpartition('/')[0]}/{file}").strip()
            except OSError:
                continue
            if value:
                ranges.append(f"{kind} {value}")
                break
    return "the parent cgroup offers " + ", ".join(ranges) if ranges else ""


_HINTS: tuple[tuple[str, tuple[int, ...], str | Callable[[str], str]], ...] = (
    ("memory.memsw", (errno.EINVAL,), "the memory+swap limit must not be below the memory limit"),
    ("memory.", (errno.EBUSY,), _memory_in_use),
    ("memory.use_hierarchy", (errno.EINVAL,), "this kernel cannot disable hierarchical accounting"),
    ("memory.kmem", (errno.ENOTSUP, errno.EINVAL), "the kernel no longer limits kernel memory"),
    ("cpuset.", (errno.EINVAL, errno.EACCES, errno.ERANGE, errno.ENOSPC), _parent_offers),
    (
        "cpu.rt_",
        (errno.EINVAL, errno.EBUSY),
        "a realtime budget must fit into that of the parent cgroup: set the parent's budget first",
    ),
    (
        "cpu.cfs_",
        (errno.EINVAL,),
        "allowed: quota at least 1000 us, period 1000 to 1000000 us, burst at most the quota",
    ),
    (
        "cpu.max",
        (errno.EINVAL,),
        "allowed: quota at least 1000 us, period 1000 to 1000000 us, burst at most the quota",
    ),
    ("cpu.weight", (errno.EINVAL,), "a cgroup with cpu.idle=1 cannot have a weight"),
    ("cpu.shares", (errno.EINVAL,), "a cgroup with cpu.idle=1 cannot have shares"),
    ("rdma.max", (errno.EINVAL,), "check that the host has this RDMA device"),
    ("pids.max", (errno.EINVAL,), "allowed: 0 to the kernel's largest pid"),
)


def in_user_namespace() -> bool:
    """Return whether this process is in a user namespace other than the host's initial one.

    Checks the namespace's inode number instead of its uid_map, because a nested namespace may have
    the same uid_map as the initial one.  Raises HostError if the number cannot be read.
    """
    path = "/proc/self/ns/user"
    try:
        return posix.stat(path).st_ino != _FIRST_USER_NAMESPACE
    except OSError as error:
        raise HostError(f'inspect the user namespace "{path}"', error) from None


def may_set_device_rules() -> bool:
    """Return whether this process is root of the initial user namespace.

    Only such a process may set device rules.  For every other process, ``delegation.py`` has
    already checked that the rules can be left out.
    """
    return posix.geteuid() == 0 and not in_user_namespace()


def gone(error: OSError) -> bool:
    """Return whether ``error`` says that a control file's cgroup or process no longer exists."""
    return error.errno in GONE


def failure(action: str, error: OSError, hint: str = "") -> HostError:
    """Return a HostError for the failed ``action``; add a hint for EROFS, EACCES and EPERM."""
    if not hint and error.errno == errno.EROFS:
        hint = "the cgroup filesystem is mounted read-only"
    elif not hint and error.errno in (errno.EACCES, errno.EPERM):
        hint = "this user has no permission to manage the cgroup"
    return HostError(action, error, hint)


UNLIMITED = 0xFFFFFFFFFFFFFFFF  # runc's value for "max"


def text(directory: str, file: str) -> str:
    """Return a control file's content; "" if the file is missing or cannot be read."""
    try:
        return read(f"{directory}/{file}")
    except OSError:
        return ""


def number(directory: str, file: str) -> int:
    """Return the number in a control file: UNLIMITED for ``max``, 0 if there is no number."""
    word = text(directory, file).strip()
    if word == "max":
        return UNLIMITED
    sign = -1 if word.startswith("-") else 1
    return sign * (whole_number(word.removeprefix("-")) or 0)


def keyed(directory: str, file: str) -> dict[str, int]:
    """Parse a flat-keyed control file (a name and a number on each line) into a dict."""
    values = {}
    for line in text(directory, file).splitlines():
        name, _, value = line.partition(" ")
        count = whole_number(value)
        if count is not None:
            values[name] = count
    return values


def without_zeros(values: dict[str, int]) -> dict[str, int]:
    """Return ``values`` without the counters that are 0: runc omits those as well."""
    return {name: value for name, value in values.items() if value}


def page_sizes(directory: str, ending: str) -> list[str]:
    """Return the host's huge page sizes, such as ``2MB``, from the names of a cgroup's files.

    Only files with a name of the form ``hugetlb.SIZE.ENDING`` count; ``ending`` is ENDING.
    """
    try:
        names = posix.listdir(directory)
    except OSError:
        return []
    split = [name.split(".", 2) for name in names]
    return sorted({parts[1] for parts in split if parts[0] == "hugetlb" and parts[2:] == [ending]})
