"""`ociruntime delete ID`."""

from __future__ import annotations

from ociruntime.runtime.lifecycle.delete import delete

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.runtime.lifecycle.options import Context


def run(context: Context, arguments: Arguments) -> int:
    """Delete the container; silent."""
    container_id, force = arguments.positional[0], arguments.flag("force")
    if not arguments.flag("regex"):
        delete(context, container_id, force)
        return 0
    from ociruntime.runtime.lifecycle.matching import for_each_match

    for_each_match(context, container_id, lambda match: delete(context, match, force))
    return 0
