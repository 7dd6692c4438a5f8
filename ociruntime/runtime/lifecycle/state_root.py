"""Choose and create the state root, the directory for the state of containers.

The default state root follows runc's rule (its libcontainer/userns, man runc(8)):
``/run/ociruntime`` for real root, ``$XDG_RUNTIME_DIR/ociruntime`` for other users.  Callers such as
podman pass no ``--root``, so every command must derive the same directory from the user and the
environment.  ``base/trusted_directories.py`` refuses a directory to which other users may write.
"""

from __future__ import annotations

import errno
import posix

from ociruntime.base.errors import HostError, UsageError
from ociruntime.base.files import statvfs
from ociruntime.base.paths import clean
from ociruntime.base.trusted_directories import in_user_namespace, make_directory
from ociruntime.runtime.host.state_directory import STATE_DIRECTORY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ociruntime.runtime.lifecycle.context import Context

NAME = "ociruntime"


def state_root(root_option: str, environ: Mapping[bytes, bytes], euid: int) -> str:
    """Return the absolute path of the state root: ``root_option`` or, if that is "", the default.

    ``euid`` and ``environ`` determine the default.  Raises UsageError for ``/``, because the state
    of a container called ``bin`` would then be stored in ``/bin``.
    """
    if root_option:
        root = absolute_path(root_option)
        if root == "/":
            raise UsageError(
                "--root /: the state root must not be /",
                "use a directory such as /run/ociruntime",
            )
        return root
    directory = environ.get(b"XDG_RUNTIME_DIR", b"")
    if directory and is_rootless(environ, euid):
        return absolute_path(directory.decode("utf-8", "surrogateescape")) + "/" + NAME
    return f"/run/{NAME}"


def is_rootless(environ: Mapping[bytes, bytes], euid: int) -> bool:
    """Return whether this user is unprivileged, or root only inside a user namespace.

    Root in a user namespace counts as privileged if $USER is ``root``.
    """
    if euid != 0:
        return True
    return environ.get(b"USER") != b"root" and in_user_namespace()


def absolute_path(path: str) -> str:
    """Return ``path`` as an absolute path, without ``.``, ``..`` and repeated slashes.

    Does the same as ``os.path.abspath``, without the cost of importing ``os``.  Raises HostError if
    the working directory has been deleted.
    """
    if not path.startswith("/"):
        try:
            path = posix.getcwd() + "/" + path
        except OSError as error:
            raise HostError(f'find the working directory to resolve "{path}"', error) from None
    return clean(path)


def make_root(context: Context) -> None:
    """Create the state root with mode 0700 if it is missing.

    Raises HostError if that fails, or if another user can write to it (trusted_directories.py).
    """
    hint = "" if context.root_given else "set XDG_RUNTIME_DIR or pass --root"
    try:
        created = make_directory(context.root, 0o700, STATE_DIRECTORY)
    except HostError as error:
        error.hint = error.hint or hint
        raise
    try:
        if not (created or posix.access(context.root, posix.W_OK | posix.X_OK)):
            read_only = statvfs(context.root).f_flag & posix.ST_RDONLY
            number = errno.EROFS if read_only else errno.EACCES
            raise OSError(number, posix.strerror(number))
        if created and not context.root_given and context.root != f"/run/{NAME}":
            # The sticky bit prevents the removal of the directory, which XDG_RUNTIME_DIR allows for
            # files not used for six hours (XDG base directory specification).
            posix.chmod(context.root, 0o1700)
    except OSError as error:
        raise HostError(f'use the {STATE_DIRECTORY} "{context.root}"', error, hint) from None
