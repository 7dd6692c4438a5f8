"""`ociruntime delete ID`: delete a container."""

from __future__ import annotations

from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.parser import Arguments
from ociruntime.runtime.lifecycle.context import Context
from ociruntime.runtime.lifecycle.delete import delete


def run(context: Context, arguments: Arguments) -> int:
    """Delete a container or, with ``--regex``, all containers whose ids match; return 0."""
    container_id, force = arguments.positional[0], arguments.flag("force")
    if not arguments.flag("regex"):
        delete(context, container_id, force)
        return 0
    from ociruntime.runtime.lifecycle.select_by_regex import for_each_match

    for_each_match(context, container_id, lambda match: delete(context, match, force))
    return 0


COMMANDS = (
    Command(
        "delete ID",
        "delete a stopped container",
        run,
        options=(
            Option(
                "force",
                "kill the container first; ignore an unknown ID",
                short="f",
                details="SIGKILL is sent to all processes of the container.",
            ),
            Option("regex", "match IDs: take ID as a regular expression", short="r"),
        ),
        details=(
            "A container that was never started is deleted without --force, and so is what an\n"
            "interrupted `create` has left behind."
        ),
        examples=(("Delete a container, running or not", "ociruntime delete --force web"),),
    ),
)
