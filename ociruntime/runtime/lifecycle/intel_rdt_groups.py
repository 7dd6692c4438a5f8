"""Create, record and remove the resctrl groups of a container (``linux.intelRdt``).

``runtime/plan/intel_rdt.py`` decides which groups a container needs.  The functions take the paths
of resctrl as arguments, so that tests can use ordinary directories.
"""

from __future__ import annotations

import posix
from collections.abc import Callable
from errno import ENOSPC
from typing import Any

from ociruntime.base.errors import ConfigError, HostError, RuntimeFailure, UsageError, reason
from ociruntime.base.files import exists, read_file, write_new
from ociruntime.base.json_text import dump, parse
from ociruntime.base.mountinfo import own_mountinfo, parse_mountinfo
from ociruntime.runtime.lifecycle.rollback import Rollback
from ociruntime.runtime.plan.intel_rdt import Group, Placement, group_path, lines, place
from ociruntime.runtime.spec.config_types import Config, IntelRdt

MOUNTPOINT = "/sys/fs/resctrl"
HINTS = {ENOSPC: "the processor has no class of service or no monitoring id left"}
NAME = "rdt.json"


def prepare_rdt(rdt: IntelRdt, container_id: str) -> Placement:
    """Return which resctrl groups to create, and which lines to write to them; create nothing.

    Raises ConfigError if resctrl is not mounted or cannot provide what ``rdt`` requests, and
    HostError.
    """
    mount = mountpoint()
    path = group_path(rdt, container_id, mount)
    there, schemata, monitoring = inspect(mount, path)
    group = Group(path, exists=there, schemata=schemata, monitoring=monitoring)
    return place(rdt, container_id, group)


def enter(placement: Placement, pid: int, directory: str, rollback: Rollback) -> None:
    """Record and create the resctrl groups of ``placement``, and move process ``pid`` into them.

    ``directory`` is the container's state directory.  Pushes the removal of the groups on
    ``rollback``.  Raises RuntimeFailure if resctrl refuses a write, and HostError.
    """
    record = {"made": placement.made, "own": placement.own, "tasks": placement.tasks}
    try:
        write_new(f"{directory}/{NAME}", dump(record).encode())
    except OSError as error:
        raise HostError(f'write "{directory}/{NAME}"', error) from None
    mount = mountpoint()
    for made in placement.made:
        make(made)
        rollback.push(lambda made=made: remove([made]))  # type: ignore[misc]
    for where, file, line in placement.lines:
        write(where, file, line, mount)
    for file in placement.tasks:
        write("linux.intelRdt", file, str(pid), mount)


def follow(directory: str, pid: int) -> None:
    """Move the process ``pid``, started by `exec`, into the container's resctrl groups.

    ``directory`` is the container's state directory.  Raises RuntimeFailure if resctrl refuses the
    process, and HostError.
    """
    mount = mountpoint()
    for file in _record(directory)["tasks"]:
        write("linux.intelRdt", file, str(pid), mount)


def change(
    config: Config, container_id: str, l3_cache: str, bandwidth: str
) -> Callable[[], list[str]]:
    """Change the schemata of a container's resctrl group; return a function that restores them.

    ``l3_cache`` and ``bandwidth`` are lines of schemata, "" to leave them unchanged.  The returned
    function returns an error message for each line that the kernel refuses.

    After an error, the schemata are restored.  Raises UsageError if the container has no resctrl
    group, ConfigError if resctrl is not mounted, RuntimeFailure if resctrl refuses a line, and
    HostError.
    """
    rdt = (config.get("linux") or {}).get("intelRdt")
    if not rdt:
        flag = "--l3-cache-schema" if l3_cache else "--mem-bw-schema"
        raise UsageError(
            f'{flag}: container "{container_id}" has no resctrl group',
            "set linux.intelRdt in config.json and create the container again",
        )
    mount = mountpoint()
    path = group_path(rdt, container_id, mount)
    _, before, _ = inspect(mount, path)
    schemata = lines({"l3CacheSchema": l3_cache, "memBwSchema": bandwidth})

    def restore() -> list[str]:
        errors = []
        for line in before.splitlines():
            try:
                write("linux.intelRdt", f"{path}/schemata", line, mount)
            except RuntimeFailure as error:
                errors.append(error.message)
        return errors

    try:
        for where, line in schemata:
            write(where, f"{path}/schemata", line, mount)
    except RuntimeFailure as failure:
        if errors := restore():
            failure.message += f"; not restored: {', '.join(errors)}"
        raise
    return restore


def leave(directory: str) -> None:
    """Remove a container's resctrl groups, except those that other containers may share.

    ``directory`` is the container's state directory.  Raises HostError.
    """
    remove(_record(directory)["own"])


def clear(directory: str) -> None:
    """Remove the resctrl groups that a killed ``create`` has recorded in its state directory.

    Removes a group named by closID only if it is empty, because another container may be using it.
    Raises HostError.
    """
    record = _record(directory)
    remove(record["own"])
    remove(record["made"], only_empty=True)


def _record(directory: str) -> Any:  # noqa: ANN401 - what enter() has written
    file = f"{directory}/{NAME}"
    if not exists(file):
        return {"made": [], "own": [], "tasks": []}
    try:
        return parse(read_file(file), file)
    except OSError as error:
        raise HostError(f'read "{file}"', error) from None


def mountpoint() -> str:
    """Return the mount point of resctrl.

    Raises HostError, and ConfigError if resctrl is not mounted.
    """
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
    """Return the mount point of resctrl in the text of a mountinfo file, or "" if there is none."""
    mounts = parse_mountinfo(mountinfo)
    return next((mount.target for mount in mounts if mount.fstype == "resctrl"), "")


def inspect(mount: str, path: str) -> tuple[bool, str, bool]:
    """Return (whether a group exists, its schemata, whether resctrl can monitor groups).

    ``mount`` is the mount point of resctrl, ``path`` the directory of the group.  Raises HostError.
    """
    group_exists = exists(f"{path}/tasks")
    schemata = b""
    # A processor that supports monitoring but not allocation has no file schemata.
    if group_exists and exists(f"{path}/schemata"):
        try:
            schemata = read_file(f"{path}/schemata")
        except OSError as error:
            raise HostError(f'linux.intelRdt: read "{path}/schemata"', error) from None
    return group_exists, schemata.decode(errors="replace"), exists(f"{mount}/mon_groups")


def make(directory: str) -> None:
    """Create the directory of a resctrl group.

    Raises HostError if that fails, for example because the group exists already.
    """
    try:
        make_directory(directory)
    except OSError as error:
        hint = HINTS.get(error.errno or 0, "")
        raise HostError(
            f'linux.intelRdt: create resctrl group "{directory}"', error, hint
        ) from None


# A separate function: tests replace it to fill the new directory with files, as the kernel does.
make_directory = posix.mkdir


def write(where: str, file: str, line: str, mount: str) -> None:
    """Write ``line``, a line of schemata or a pid, to a file of resctrl.

    ``where`` is the beginning of the error message, ``mount`` the mount point of resctrl.  Raises
    RuntimeFailure with resctrl's own explanation if the write fails.
    """
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
    """Remove resctrl groups, the last one first; skip those that do not exist.

    The kernel moves the processes of a group to its parent.  ``only_empty``: keep the groups that
    have processes.  Raises HostError.
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
