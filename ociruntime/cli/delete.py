"""`ociruntime delete ID`."""

from __future__ import annotations

from ociruntime.runtime.delete import delete

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments
    from ociruntime.runtime.options import Context


def run(context: Context, arguments: Arguments) -> int:
    """Delete the container; silent."""
    container_id, force = arguments.positional[0], arguments.flag("force")
    if not arguments.flag("regex"):
        delete(context, container_id, force)
        return 0
    from ociruntime.runtime.matching import for_each_match

    for_each_match(context, container_id, lambda match: delete(context, match, force))
    return 0
