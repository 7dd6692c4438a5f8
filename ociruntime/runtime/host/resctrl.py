"""Read and change the resctrl filesystem, as planned by ``runtime/plan/intel_rdt.py``.

Every function takes paths, so that tests can use ordinary directories.
"""

from __future__ import annotations

import posix
from errno import ENOSPC

from ociruntime.base.errors import ConfigError, HostError, RuntimeFailure, reason
from ociruntime.base.files import exists, read_file
from ociruntime.base.mountinfo import own_mountinfo, parse_mountinfo

MOUNTPOINT = "/sys/fs/resctrl"
HINTS = {ENOSPC: "the processor has no class of service or no monitoring id left"}


def mountpoint() -> str:
    """Return the mount point of resctrl.  Raises HostError, and ConfigError if not mounted."""
    try:
        path = find_mountpoint(own_mountinfo())
        supported = b"\tresctrl\n" in read_file("/proc/filesystems")
    except OSError as error:
        raise HostError("find the mount point of resctrl in /proc", error) from None
    if path:
        return path
    if not supported:
        raise ConfigError("linux.intelRdt", "this kernel or processor does not support resctrl")
    hint = f"mount it: mount -t resctrl resctrl {MOUNTPOINT}"
    raise ConfigError("linux.intelRdt", "resctrl is not mounted", hint)


def find_mountpoint(mountinfo: str) -> str:
    """Return the mount point of resctrl in the text of a mountinfo file; "" if not mounted."""
    mounts = parse_mountinfo(mountinfo)
    return next((mount.target for mount in mounts if mount.fstype == "resctrl"), "")


def inspect(mount: str, path: str) -> tuple[bool, str, bool]:
    """Return (whether the group ``path`` exists, its schemata, whether groups can be monitored).

    ``mount`` is the mount point of resctrl.  Raises HostError.
    """
    group_exists = exists(f"{path}/tasks")
    schemata = b""
    # A processor with monitoring alone, without allocation, has no file schemata.
    if group_exists and exists(f"{path}/schemata"):
        try:
            schemata = read_file(f"{path}/schemata")
        except OSError as error:
            raise HostError(f'linux.intelRdt: read "{path}/schemata"', error) from None
    return group_exists, schemata.decode(errors="replace"), exists(f"{mount}/mon_groups")


def make(directory: str) -> None:
    """Create the directory of a resctrl group.  Raises HostError, also if it exists."""
    try:
        make_directory(directory)
    except OSError as error:
        hint = HINTS.get(error.errno or 0, "")
        raise HostError(
            f'linux.intelRdt: create resctrl group "{directory}"', error, hint
        ) from None


# A name of its own: tests replace it to fill the new directory with files, as the kernel does.
make_directory = posix.mkdir


def write(where: str, file: str, line: str, mount: str) -> None:
    """Write a line of schemata, or a pid, to ``file``.  Raises RuntimeFailure with the reason."""
    try:
        fd = posix.open(file, posix.O_WRONLY | posix.O_CLOEXEC)
        try:
            posix.write(fd, f"{line}\n".encode())
        finally:
            posix.close(fd)
    except OSError as error:
        status = _last_status(mount)
        cause = f"{reason(error)}: {status}" if status else reason(error)
        raise RuntimeFailure(f'{where}: write "{line}" to "{file}": {cause}') from None


def _last_status(mount: str) -> str:
    """Return resctrl's explanation of the last error (info/last_cmd_status), or ""."""
    try:
        text = read_file(f"{mount}/info/last_cmd_status").decode(errors="replace").strip()
    except OSError:
        return ""
    return "" if text == "ok" else text


def remove(directories: list[str], *, only_empty: bool = False) -> None:
    """Remove resctrl groups, the last one first; skip missing ones.  Raises HostError.

    Their processes move to the parent group.  ``only_empty``: keep groups that have processes.
    """
    for directory in reversed(directories):
        try:
            if only_empty and read_file(f"{directory}/tasks").strip():
                continue
            remove_directory(directory)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise HostError(f'linux.intelRdt: remove resctrl group "{directory}"', error) from None


remove_directory = posix.rmdir
