"""The namespaces of a process, from /proc/PID/ns (namespaces(7))."""

from __future__ import annotations

import posix

from ociruntime.base.errors import HostError
from ociruntime.base.linux import NAMESPACE_FILES, NAMESPACES


def namespaces_apart(pid: int) -> int:
    """Return the CLONE_NEW* flags of the namespaces in which ``pid`` differs from us.

    Kinds that the kernel does not know are left out.  Raises HostError.
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
