"""`ociruntime snapshot status|make|remove`."""

from __future__ import annotations

import posix

from ociruntime import snapshot
from ociruntime.cli.output import write
from ociruntime.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments
    from ociruntime.runtime.options import Context


def run(context: Context, arguments: Arguments) -> int:  # noqa: ARG001 - as every command
    """Tell whether there is a snapshot, make it or remove it; the status is 1 without one."""
    path = snapshot.location(posix.environ, posix.geteuid())
    verb = arguments.positional[0]
    if verb not in ("status", "make", "remove"):
        raise UsageError(f'unknown argument "{verb}" of snapshot', "status, make or remove")
    if not path:
        raise UsageError("snapshot: XDG_RUNTIME_DIR is not set", "set it to a directory of yours")
    if verb == "make":
        return write(f"{path}: {snapshot.make(path)} bytes\n")
    if verb == "remove":
        return write(f"{path}: {'removed' if snapshot.remove(path) else 'there was none'}\n")
    try:
        size = snapshot.inspect(path)
    except snapshot.Unusable as reason:
        write(f"{path}: not used: {reason}\n")
        return 1
    return write(f"{path}: used, {size} bytes\n")
