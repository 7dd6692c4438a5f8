"""`ociruntime spec`."""

from __future__ import annotations

import posix

from ociruntime.cli.container_options import bundle_path
from ociruntime.errors import HostError, RuntimeFailure
from ociruntime.spec.default import default_config
from ociruntime.spec.json_text import dump

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments
    from ociruntime.runtime.options import Context


def run(context: Context, arguments: Arguments) -> int:  # noqa: ARG001 - as every command
    """Write config.json into the bundle; silent."""
    config = default_config(arguments.flag("rootless"), posix.geteuid(), posix.getegid())
    write_new(bundle_path(arguments) + "/config.json", dump(config, 4) + "\n")
    return 0


def write_new(path: str, text: str) -> None:
    """Write a file that must not be there yet, and remove it if that fails half-way.

    Raises RuntimeFailure, HostError.
    """
    flags = posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_CLOEXEC
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
        posix.unlink(path)
        raise HostError(f"write {path}", error) from None
    finally:
        posix.close(fd)
