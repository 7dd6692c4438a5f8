"""A plan as `plan` shows it: the host's part, then the executor's."""

from __future__ import annotations

from ociruntime.base.log import plain
from ociruntime.runtime.plan.explain import explain, plan_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.runtime.plan.plan import Plan

    HostSteps = list[tuple[str, str]]  # as runtime/lifecycle/plan.py gives them

# The width of an operation's line (runtime/plan/explain.py): all remarks begin in one column.
_WIDTH = 73


def plan_text(host: HostSteps, plan: Plan) -> str:
    """For people: one line a step, behind it the JSON path of the setting it comes from."""
    lines = ["on the host"]
    for where, words in host:
        lines.append(f"     {words:<{_WIDTH}}  # {where}" if where else f"     {words}")
    lines += ["", "in the container"]
    return "".join([f"{plain(line)}\n" for line in lines]) + explain(plan)


def plan_values(host: HostSteps, plan: Plan) -> dict[str, object]:
    """For programs: ``host`` (steps and where they come from) and what ``plan_document`` has."""
    steps = [{"step": words, "where": where} if where else {"step": words} for where, words in host]
    return {"host": steps, **plan_document(plan)}
