"""In which namespaces a process is, as /proc/PID/ns tells (namespaces(7))."""

from __future__ import annotations

import posix

from ociruntime.base.errors import HostError
from ociruntime.base.linux import NAMESPACE_FILES, NAMESPACES


def namespaces_apart(pid: int) -> int:
    """CLONE_NEW* of the namespaces that ``pid`` has and we have not.

    Raises HostError; one of a kind that the kernel does not know is nowhere.
    """
    apart = 0
    for kind, file in NAMESPACE_FILES.items():
        try:
            ours = posix.readlink(f"/proc/self/ns/{file}")
        except FileNotFoundError:
            continue
        try:
            theirs = posix.readlink(f"/proc/{pid}/ns/{file}")
        except OSError as error:
            raise HostError(f"look at the namespaces of process {pid}", error) from None
        if theirs != ours:
            apart |= NAMESPACES[kind]
    return apart
