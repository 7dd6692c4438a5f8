"""Writing the id maps of a new user namespace (user_namespaces(7))."""

from __future__ import annotations

import posix

from ociruntime.errors import HostError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.spec.document import IdMapping

EPERM_HINT = (
    "without privileges on the host only the caller's own id can be mapped; the helpers newuidmap"
    " and newgidmap are not used yet"
)


def write_maps(pid: int, uids: list[IdMapping], gids: list[IdMapping]) -> None:
    """Write both maps for the process that has made the namespace.  Raises HostError.

    Without privileges the kernel wants setgroups(2) to be given up before gid_map.
    """
    if posix.geteuid() != 0:
        _write(pid, "setgroups", "deny")
    _write(pid, "gid_map", _lines(gids))
    _write(pid, "uid_map", _lines(uids))


def _lines(mappings: list[IdMapping]) -> str:
    return "".join(
        f"{entry['containerID']} {entry['hostID']} {entry['size']}\n" for entry in mappings
    )


def _write(pid: int, name: str, text: str) -> None:
    path = f"/proc/{pid}/{name}"
    try:
        fd = posix.open(path, posix.O_WRONLY | posix.O_CLOEXEC)
        try:
            # One write: the kernel takes a map whole or not at all.
            posix.write(fd, text.encode())
        finally:
            posix.close(fd)
    except OSError as error:
        hint = EPERM_HINT if error.errno == 1 and posix.geteuid() != 0 else ""
        raise HostError(f"write {name} of the user namespace", error, hint) from None
