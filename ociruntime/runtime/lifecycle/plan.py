"""`plan`: list the steps of `create`, without carrying them out."""

from __future__ import annotations

from ociruntime.base.log import plain
from ociruntime.runtime.lifecycle.context import Context, CreateOptions
from ociruntime.runtime.lifecycle.prepare_create import Preparation, prepare
from ociruntime.runtime.plan.cgroup_mounts import NOBODY_ELSE, cgroup_owner
from ociruntime.runtime.plan.explain import explain, plan_document
from ociruntime.runtime.plan.plan import Plan

HostSteps = list[tuple[str, str]]  # (JSON path or "", text), in order


def plan(context: Context, options: CreateOptions) -> tuple[list[tuple[str, str]], Plan]:
    """Return the steps of `create` for a bundle: the steps on the host, and the executor's plan.

    A step on the host is (JSON path or "", text).  Raises the errors of ``prepare``.
    """
    prepared = prepare(context, options)
    return host_part(context, options, prepared), prepared.plan


def host_part(
    context: Context, options: CreateOptions, prepared: Preparation
) -> list[tuple[str, str]]:
    """Return the steps of `create` on the host, in order, as pairs (JSON path or "", text)."""
    steps = [("", f"create and lock the state directory {context.root}/.creating-{options.id}")]
    unit = prepared.cgroup.unit
    for directory in prepared.cgroup.paths.values():
        maker = f"let systemd create {unit} with" if unit else "create"
        steps.append(("linux.cgroupsPath", f"{maker} cgroup {directory}"))
    owner = cgroup_owner(prepared.config)
    if owner != NOBODY_ELSE and prepared.layout.mode == "v2":
        steps.append(("", f"delegate the cgroup to uid {owner} (change its owner)"))
    for setting in prepared.cgroup.settings(prepared.resources):
        file, value = setting.files[0]
        steps.append((setting.where, f"write {value} to {file}"))
    if prepared.rdt:
        steps += [("linux.intelRdt", f"create resctrl group {made}") for made in prepared.rdt.made]
        steps += [(where, f"write {line} to {file}") for where, file, line in prepared.rdt.lines]
        steps += [
            ("linux.intelRdt", f"write the init's pid to {file}") for file in prepared.rdt.tasks
        ]
    for name in (prepared.config.get("linux") or {}).get("netDevices") or ():
        steps.append(
            (f'linux.netDevices["{name}"]', f"move network device {name} into the container")
        )
    for kind in ("prestart", "createRuntime"):
        for index, hook in enumerate(prepared.hooks(kind)):
            steps.append((f"hooks.{kind}[{index}]", f"run {hook['path']}"))
    if options.console_socket:
        steps.append(("process.terminal", f"send the terminal to {options.console_socket}"))
    if options.pid_file:
        steps.append(("", f"write the init's pid to {options.pid_file}"))
    steps.append(("", f"rename the state directory to {context.root}/{options.id}"))
    return steps


# The width of an operation's line (runtime/plan/explain.py), to align the JSON paths.
_WIDTH = 73


def plan_text(host: HostSteps, plan: Plan) -> str:
    """Return the plan as text: a line for each step, with its setting's JSON path as a comment."""
    lines = ["on the host"]
    for where, step in host:
        lines.append(f"     {step:<{_WIDTH}}  # {where}" if where else f"     {step}")
    lines += ["", "in the container"]
    return "".join([f"{plain(line)}\n" for line in lines]) + explain(plan)


def plan_values(host: HostSteps, plan: Plan) -> dict[str, object]:
    """Return the plan as a JSON object.

    ``host`` are the steps on the host, as ``host_part`` returns them.
    """
    steps = [{"step": step, "where": where} if where else {"step": step} for where, step in host]
    return {"host": steps, **plan_document(plan)}
