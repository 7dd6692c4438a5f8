"""A mount namespace for what is mounted for a pod: it all goes with the monitor."""

from __future__ import annotations

import posix

from ociruntime.errors import HostError

EINVAL = 22  # nothing is mounted there


def leave_the_hosts() -> None:
    """The host's mounts are seen here, later ones too, but not the other way.  Raises HostError."""
    from ociruntime._shim import lib

    _check(lib.oci_own_mounts(), "make a mount namespace")


def unmount(path: str) -> None:
    """Unmount what is at ``path``, if anything.  Raises HostError."""
    from ociruntime._shim import ffi, lib

    result = lib.oci_detach_mount(ffi.from_buffer(path.encode("utf-8", "surrogateescape") + b"\0"))
    if result != -EINVAL:
        _check(result, f"unmount {path}")


def _check(result: int, action: str) -> None:
    if result < 0:
        raise HostError(action, OSError(-result, posix.strerror(-result)))
