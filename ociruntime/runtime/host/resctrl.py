"""The resctrl file system: inspection, and the changes that ``runtime/plan/intel_rdt.py`` decides.

Every function takes paths, so that tests can use plain directories.
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
    """Return the mount point of resctrl.  Raises ConfigError if it is not mounted, HostError."""
    try:
        found = find_mountpoint(own_mountinfo())
        known = b"\tresctrl\n" in read_file("/proc/filesystems")
    except OSError as error:
        raise HostError("look for resctrl in /proc", error) from None
    if found:
        return found
    if not known:
        raise ConfigError("linux.intelRdt", "this kernel or its processor has no resctrl")
    hint = f"mount -t resctrl resctrl {MOUNTPOINT}"
    raise ConfigError("linux.intelRdt", "resctrl is not mounted", hint)


def find_mountpoint(mountinfo: str) -> str:
    """Return the mount point of resctrl in a mountinfo, "" if there is none."""
    mounts = parse_mountinfo(mountinfo)
    return next((mount.target for mount in mounts if mount.fstype == "resctrl"), "")


def look(mount: str, path: str) -> tuple[bool, str, bool]:
    """Return whether a group exists, its schemata, and whether groups can be monitored.

    Raises HostError.
    """
    there = exists(f"{path}/tasks")
    schemata = b""
    # Without allocation, which monitoring does not need, there is no such file.
    if there and exists(f"{path}/schemata"):
        try:
            schemata = read_file(f"{path}/schemata")
        except OSError as error:
            raise HostError(f"linux.intelRdt: read {path}/schemata", error) from None
    return there, schemata.decode(errors="replace"), exists(f"{mount}/mon_groups")


def make(directory: str) -> None:
    """Create a group.  Raises HostError, also if it exists."""
    try:
        make_directory(directory)
    except OSError as error:
        hint = HINTS.get(error.errno or 0, "")
        raise HostError(f"linux.intelRdt: make {directory}", error, hint) from None


# The kernel fills a new group with its files; an imitation has to do that itself.
make_directory = posix.mkdir


def write(where: str, file: str, line: str, mount: str) -> None:
    """Write one line of schemata, or a pid.  Raises RuntimeFailure with the kernel's reason."""
    try:
        fd = posix.open(file, posix.O_WRONLY | posix.O_CLOEXEC)
        try:
            posix.write(fd, f"{line}\n".encode())
        finally:
            posix.close(fd)
    except OSError as error:
        status = _last_status(mount)
        words = f"{reason(error)}: {status}" if status else reason(error)
        raise RuntimeFailure(f'{where}: write "{line}" to {file}: {words}') from None


def _last_status(mount: str) -> str:
    """Return resctrl's explanation of the last error (info/last_cmd_status)."""
    try:
        text = read_file(f"{mount}/info/last_cmd_status").decode(errors="replace").strip()
    except OSError:
        return ""
    return "" if text == "ok" else text


def remove(directories: list[str], *, only_empty: bool = False) -> None:
    """Remove groups, last first; a missing one is not an error.  Raises HostError.

    Their processes fall back to the parent group.  ``only_empty`` keeps groups with processes.
    """
    for directory in reversed(directories):
        try:
            if only_empty and read_file(f"{directory}/tasks").strip():
                continue
            remove_directory(directory)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise HostError(f"linux.intelRdt: remove {directory}", error) from None


remove_directory = posix.rmdir
