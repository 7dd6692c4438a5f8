"""A pod's cgroups: their limits, processes, OOM kills and removal.

A pod has one cgroup in each hierarchy, with a child cgroup for each app.
"""

from __future__ import annotations

import errno
import os

from ociruntime.base.errors import HostError
from ociruntime.base.files import cgroup_tree, read_file
from ociruntime.base.mountinfo import own_mountinfo, parse_mountinfo, reachable

Write = tuple[str, str]


def hierarchies() -> list[str]:
    """Return the mount points of the cgroup hierarchies; a pod has a cgroup in each of them."""
    return list(_controllers())


def _controllers() -> dict[str, list[str] | None]:
    """Return {mount point: controllers} of the cgroup hierarchies.

    The controllers are None for cgroup v2.
    """
    controllers: dict[str, list[str] | None] = {}
    for mount in reachable(parse_mountinfo(own_mountinfo()), "cgroup", "cgroup2"):
        v1 = mount.fstype == "cgroup"
        controllers[mount.target] = mount.super_options.split(",") if v1 else None
    return controllers


def directories(mounts: list[str], name: str) -> list[str]:
    """Return the paths of the cgroup ``name`` in each hierarchy, whether it exists or not.

    ``mounts`` are the mount points of the hierarchies.
    """
    return [f"{mount}/{name}" for mount in mounts]


def limit(name: str, divided: list[Write], unified: list[Write]) -> None:
    """Set resource limits of the pod's cgroup ``name``, which is created if it is missing.

    Limits are pairs (file name, text to write): ``divided`` for cgroup v1, ``unified`` for v2.  A
    limit is skipped in hierarchies without its controller.  Raises HostError if a cgroup cannot be
    created or a file cannot be written.
    """
    for mount, controllers in _controllers().items():
        if controllers is not None:
            _limit(f"{mount}/{name}", divided, controllers)
            continue
        available = read_file(f"{mount}/cgroup.controllers").decode().split()
        needed = {file.partition(".")[0] for file, _ in unified}.intersection(available)
        if needed:
            text = " ".join(f"+{each}" for each in sorted(needed))
            _write(f"{mount}/cgroup.subtree_control", text)
        _limit(f"{mount}/{name}", unified, available)


def _limit(directory: str, writes: list[Write], controllers: list[str]) -> None:
    for file, value in writes:
        if file.partition(".")[0] in controllers:
            _make(directory)
            _write(f"{directory}/{file}", value)


def _make(directory: str) -> None:
    try:
        os.mkdir(directory, 0o755)
    except FileExistsError:
        return
    except OSError as error:
        raise HostError(f'create the pod\'s cgroup "{directory}"', error) from None


def _write(path: str, value: str) -> None:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, value.encode())
        finally:
            os.close(fd)
    except OSError as error:
        raise HostError(f'set a limit of the pod: write "{value}" to "{path}"', error) from None


def was_out_of_memory(directories: list[str], app: str) -> bool:
    """Return whether the OOM killer has killed a process of ``app``.

    ``directories`` are the pod's cgroups, one per hierarchy.
    """
    for directory in directories:
        for name in ("memory.oom_control", "memory.events"):
            try:
                text = read_file(f"{directory}/{app}/{name}")
            except OSError:
                continue
            for line in text.splitlines():
                key, _, value = line.partition(b" ")
                if key == b"oom_kill" and value != b"0":
                    return True
    return False


def processes(directories: list[str]) -> list[int]:
    """Return the sorted pids of all processes in the cgroups ``directories`` and below them."""
    pids: set[int] = set()
    for directory in directories:
        for below in cgroup_tree(directory, errno.errorcode):
            try:
                pids.update(int(pid) for pid in read_file(f"{below}/cgroup.procs").split())
            except OSError:
                continue
    return sorted(pids - {0})


def remove(directories: list[str]) -> list[str]:
    """Remove the cgroups ``directories`` and all below them; return the paths that still exist."""
    remaining = []
    for directory in directories:
        for below in cgroup_tree(directory, errno.errorcode):
            try:
                os.rmdir(below)
            except FileNotFoundError:
                continue
            except OSError:
                remaining.append(below if below.startswith(directory) else directory)
    return remaining
