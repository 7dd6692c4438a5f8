"""`ociruntime snapshot status|make|refresh|remove`."""

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
    """Show, make, refresh or remove the snapshot; `status` exits with 1 if there is none."""
    path = snapshot.location(posix.environ, posix.geteuid())
    verb = arguments.positional[0]
    if verb not in ("status", "make", "refresh", "remove"):
        accepted = "status, make, refresh or remove"
        raise UsageError(f'unknown argument "{verb}" of snapshot', accepted)
    if not path:
        raise UsageError("snapshot: XDG_RUNTIME_DIR is not set", "set it to a directory of yours")
    if verb in ("make", "refresh"):
        posix.chdir("/")  # in the background it must not keep a mount of the caller's busy
    if verb == "make":
        return write(f"{path}: {snapshot.make(path)} bytes\n")
    if verb == "refresh":
        made = snapshot.refresh(path)
        return write(f"{path}: {'made' if made else 'left as it is'}\n")
    if verb == "remove":
        return write(f"{path}: {'removed' if snapshot.remove(path) else 'there was none'}\n")
    try:
        size = snapshot.inspect(path)
    except snapshot.Unusable as reason:
        write(f"{path}: not used: {reason}\n")
        return 1
    return write(f"{path}: used, {size} bytes\n")
