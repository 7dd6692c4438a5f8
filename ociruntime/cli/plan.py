"""`ociruntime plan [BUNDLE]`."""

from __future__ import annotations

from ociruntime.cli.container_options import container_options
from ociruntime.cli.output import write
from ociruntime.errors import UsageError
from ociruntime.runtime.identifier import check_id
from ociruntime.runtime.plan import plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments
    from ociruntime.plan.plan import Plan
    from ociruntime.runtime.options import Context

    HostSteps = list[tuple[str, str]]


def run(context: Context, arguments: Arguments) -> int:
    """Print what `create` would do; change nothing."""
    if arguments.positional:
        if arguments.text("bundle") not in ("", arguments.positional[0]):
            raise UsageError("the bundle is given twice", "as an argument or with --bundle")
        arguments.texts["bundle"] = arguments.positional[0]
    container_id = arguments.text("id", "plan")
    check_id(container_id)
    options = container_options(context, arguments, container_id, detach=True)
    host, compiled = plan(context, options)
    if arguments.text("format") == "json":
        return write(_json(host, compiled))
    return write(_text(host, compiled))


def _text(host: HostSteps, compiled: Plan) -> str:
    from ociruntime.plan.explain import explain

    lines = ["on the host"]
    for where, words in host:
        lines.append(f"     {words:<73}  # {where}" if where else f"     {words}")
    lines += ["", "in the container"]
    return "\n".join(lines) + "\n" + explain(compiled)


def _json(host: HostSteps, compiled: Plan) -> str:
    from ociruntime.plan.explain import plan_document
    from ociruntime.spec.json_text import dump

    steps = [{"step": words, "where": where} if where else {"step": words} for where, words in host]
    return dump({"host": steps, **plan_document(compiled)}, 2) + "\n"
