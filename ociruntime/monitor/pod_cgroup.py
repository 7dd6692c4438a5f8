"""A pod's cgroup: in each hierarchy one directory, and in it one for each app."""

from __future__ import annotations

import posix

from ociruntime.host.files import read_file

ENOENT = 2


def hierarchies() -> list[str]:
    """Where hierarchies with processes are mounted, by mountinfo; the host's alone."""
    found = []
    for line in read_file("/proc/self/mountinfo").splitlines():
        fields, _, rest = line.partition(b" - ")
        if rest.startswith((b"cgroup ", b"cgroup2 ")):
            found.append(fields.split(b" ")[4].decode())
    return found


def directories(mounts: list[str], name: str) -> list[str]:
    """The pod's directory in each hierarchy, whether it is there or not."""
    return [f"{mount}/{name}" for mount in mounts]


def was_out_of_memory(directories: list[str], app: str) -> bool:
    """Whether the kernel killed a process of the app for its memory limit."""
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
    """Who is in these cgroups or below them, each once."""
    found: set[int] = set()
    for directory in directories:
        for below in _tree(directory):
            try:
                found.update(int(pid) for pid in read_file(f"{below}/cgroup.procs").split())
            except OSError:
                continue
    return sorted(found - {0})


def remove(directories: list[str]) -> list[str]:
    """Remove the cgroups, deepest first; those that are still there."""
    left = []
    for directory in directories:
        for below in reversed(_tree(directory)):
            try:
                posix.rmdir(below)
            except FileNotFoundError:
                continue
            except OSError:
                left.append(below)
    return left


def _tree(directory: str) -> list[str]:
    """The directory and all below it, parents first; nothing if it is not there."""
    try:
        with posix.scandir(directory) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    found = [directory]
    for name in names:
        found += _tree(f"{directory}/{name}")
    return found
