"""`ociruntime plan [BUNDLE]`."""

from __future__ import annotations

from ociruntime.base.errors import UsageError
from ociruntime.commandline.output import write
from ociruntime.runtime.cli.container_options import container_options
from ociruntime.runtime.lifecycle.identifier import check_id
from ociruntime.runtime.lifecycle.plan import plan, plan_text, plan_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.runtime.lifecycle.options import Context


def run(context: Context, arguments: Arguments) -> int:
    """Print what `create` would do; change nothing."""
    if arguments.positional:
        if arguments.text("bundle") not in ("", arguments.positional[0]):
            raise UsageError("the bundle is given twice", "as an argument or with --bundle")
        arguments.texts["bundle"] = arguments.positional[0]
    container_id = arguments.text("id", "plan")
    check_id(container_id)
    options = container_options(arguments, container_id, detach=True)
    host, compiled = plan(context, options)
    if arguments.text("format") == "json":
        from ociruntime.base.json_text import dump

        return write(dump(plan_values(host, compiled), 2) + "\n")
    return write(plan_text(host, compiled))
