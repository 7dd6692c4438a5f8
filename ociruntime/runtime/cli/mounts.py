"""`ociruntime mounts add|remove ID FILE`: change the mounts of a running container."""

from __future__ import annotations

from ociruntime.base.errors import UsageError
from ociruntime.commandline.options import Command
from ociruntime.commandline.parser import Arguments
from ociruntime.runtime.cli.container_options import absolute
from ociruntime.runtime.lifecycle.context import Context


def run_mounts(context: Context, arguments: Arguments) -> int:
    """Add mounts to a running container, or remove mounts from it; return 0."""
    action, container_id, file = arguments.positional
    if action not in ("add", "remove"):
        raise UsageError(f'mounts: unknown action "{action}"', "use add or remove")
    # Imported here to keep it out of the snapshot, which contains this module: the command is rare.
    from ociruntime.runtime.lifecycle.mounts_add_remove import change_mounts

    change_mounts(context, container_id, absolute(file), remove=action == "remove")
    return 0


COMMANDS = (
    Command(
        "mounts add|remove ID FILE",
        "add or remove mounts of a container",
        run_mounts,
        details=(
            "FILE holds a JSON array like `mounts` in config.json. If one mount fails, none\n"
            "is added. `remove` unmounts the destinations in reverse order."
        ),
        examples=(
            ("Add the mounts in mounts.json", "ociruntime mounts add web mounts.json"),
            ("Remove them", "ociruntime mounts remove web mounts.json"),
        ),
    ),
)
