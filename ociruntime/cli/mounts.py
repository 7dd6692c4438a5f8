"""`ociruntime mounts add|remove ID FILE`."""

from __future__ import annotations

from ociruntime.cli.container_options import absolute
from ociruntime.errors import UsageError
from ociruntime.runtime.mounts import change_mounts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments
    from ociruntime.runtime.options import Context


def run(context: Context, arguments: Arguments) -> int:
    """Change the mounts; silent."""
    action, container_id, file = arguments.positional
    if action not in ("add", "remove"):
        raise UsageError(f'mounts: unknown action "{action}"', "add or remove")
    change_mounts(context, container_id, absolute(file), remove=action == "remove")
    return 0
