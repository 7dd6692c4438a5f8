"""Find programs of the host that a privileged process may execute.

The system's directories are searched first.  PATH comes from the caller, who may have fewer
privileges than this process (sudo's env_keep).  Therefore a directory in PATH is searched only if
no other user except root can change it.
"""

from __future__ import annotations

import posix
import sys

from ociruntime.base.errors import HostError
from ociruntime.base.trusted_directories import check_directory

DIRECTORIES = (
    *("/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/sbin", "/usr/local/bin"),
    *("/run/wrappers/bin", "/run/current-system/sw/bin"),  # NixOS
)


def own_launcher(name: str) -> str:
    """Return the path of the launcher ``name``, such as ``ocipod``, in this program's directory.

    Returns "" if the launcher is missing.  A program starts from a snapshot of the interpreter only
    if its launcher is executed.
    """
    path = f"{sys.argv[0].partition('/lib/python')[0]}/bin/{name}"
    return path if posix.access(path, posix.X_OK) else ""


def find_program(name: str, callers_first: bool = False) -> str:
    """Return the path of the executable ``name`` in a trusted directory; "" if it is not found.

    Searches the system's directories before the trusted directories in PATH; with
    ``callers_first``, searches those in PATH first.
    """
    path = posix.environ.get(b"PATH", b"").decode("utf-8", "surrogateescape").split(":")
    for directory in (*path, *DIRECTORIES) if callers_first else (*DIRECTORIES, *path):
        candidate = f"{directory}/{name}"
        if _is_program(candidate) and (directory in DIRECTORIES or _is_trusted(directory)):
            return candidate
    return ""


def _is_program(path: str) -> bool:
    try:
        is_file = posix.stat(path).st_mode & 0o170000 == 0o100000
    except OSError:
        return False
    return is_file and posix.access(path, posix.X_OK)


def _is_trusted(directory: str) -> bool:
    try:
        return directory.startswith("/") and check_directory(directory, "directory")
    except HostError:
        return False
