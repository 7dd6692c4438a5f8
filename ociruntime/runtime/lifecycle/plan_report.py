"""The output of `plan`: the host's steps, then the executor's."""

from __future__ import annotations

from ociruntime.base.log import plain
from ociruntime.runtime.plan.explain import explain, plan_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.runtime.plan.plan import Plan

    HostSteps = list[tuple[str, str]]  # as runtime/lifecycle/plan.py gives them

# The width of an operation's line (runtime/plan/explain.py), so that all remarks are aligned.
_WIDTH = 73


def plan_text(host: HostSteps, plan: Plan) -> str:
    """Return the plan as text: one step a line, followed by the JSON path of its setting."""
    lines = ["on the host"]
    for where, words in host:
        lines.append(f"     {words:<{_WIDTH}}  # {where}" if where else f"     {words}")
    lines += ["", "in the container"]
    return "".join([f"{plain(line)}\n" for line in lines]) + explain(plan)


def plan_values(host: HostSteps, plan: Plan) -> dict[str, object]:
    """Return the plan for JSON: ``host`` (steps and their settings) and the members of
    ``plan_document``.
    """
    steps = [{"step": words, "where": where} if where else {"step": words} for where, words in host]
    return {"host": steps, **plan_document(plan)}
