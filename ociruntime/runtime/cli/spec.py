"""`ociruntime spec`."""

from __future__ import annotations

import posix

from ociruntime.base.errors import HostError, RuntimeFailure
from ociruntime.base.json_text import dump
from ociruntime.runtime.cli.container_options import bundle_path, caller_path
from ociruntime.runtime.spec.default import default_config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.runtime.lifecycle.options import Context


def run(context: Context, arguments: Arguments) -> int:  # noqa: ARG001 - as every command
    """Write config.json into the bundle, or another file; silent."""
    config = default_config(arguments.flag("rootless"), posix.geteuid(), posix.getegid())
    text = dump(config, 4) + "\n"
    if file := caller_path(arguments, "file"):
        write(file, text, posix.O_TRUNC)
    else:
        write(bundle_path(arguments) + "/config.json", text, posix.O_EXCL)
    return 0


def write(path: str, text: str, how: int) -> None:
    """Write a file: with O_EXCL it must not be there yet, with O_TRUNC it may.

    A new one is removed if that fails half-way.  Raises RuntimeFailure, HostError.
    """
    flags = posix.O_WRONLY | posix.O_CREAT | posix.O_CLOEXEC | posix.O_NOCTTY | how
    try:
        fd = posix.open(path, flags, 0o666)
    except FileExistsError:
        raise RuntimeFailure(f"{path} exists", "remove it first") from None
    except OSError as error:
        raise HostError(f"create {path}", error) from None
    data = memoryview(text.encode())
    try:
        while data:
            data = data[posix.write(fd, data) :]
    except OSError as error:
        if how == posix.O_EXCL:
            posix.unlink(path)
        raise HostError(f"write {path}", error) from None
    finally:
        posix.close(fd)
