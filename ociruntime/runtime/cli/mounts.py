"""`ociruntime mounts add|remove ID FILE`."""

from __future__ import annotations

from ociruntime.base.errors import UsageError
from ociruntime.runtime.cli.container_options import absolute
from ociruntime.runtime.lifecycle.mounts import change_mounts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.runtime.lifecycle.options import Context


def run(context: Context, arguments: Arguments) -> int:
    """Change the mounts; silent."""
    action, container_id, file = arguments.positional
    if action not in ("add", "remove"):
        raise UsageError(f'mounts: unknown action "{action}"', "add or remove")
    change_mounts(context, container_id, absolute(file), remove=action == "remove")
    return 0
