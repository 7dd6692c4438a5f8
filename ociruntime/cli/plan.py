"""`ociruntime plan [BUNDLE]`."""

from __future__ import annotations

from ociruntime.cli.container_options import container_options
from ociruntime.cli.output import write
from ociruntime.errors import UsageError
from ociruntime.runtime.plan import plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments
    from ociruntime.runtime.options import Context


def run(context: Context, arguments: Arguments) -> int:
    """Print what `create` would do; change nothing."""
    if arguments.positional:
        if arguments.text("bundle") not in ("", arguments.positional[0]):
            raise UsageError("the bundle is given twice", "as an argument or with --bundle")
        arguments.texts["bundle"] = arguments.positional[0]
    options = container_options(context, arguments, arguments.text("id", "plan"), detach=True)
    compiled = plan(context, options)
    if arguments.text("format") == "json":
        from ociruntime.plan.explain import plan_document
        from ociruntime.spec.json_text import dump

        return write(dump(plan_document(compiled), 2) + "\n")
    from ociruntime.plan.explain import explain

    return write(explain(compiled))
