"""Plan the hooks: run some as operations of the plan, and wait while the runtime runs others.

The runtime runs prestart and createRuntime hooks, and the plan only waits for them.
createContainer and startContainer hooks are operations of the plan.  poststart and poststop hooks
are not in the plan.
"""

from __future__ import annotations

from ociruntime.runtime.plan import operation_constructors as operations
from ociruntime.runtime.plan.compiler_state import Compilation
from ociruntime.runtime.plan.operation_table import STAGE_HOOKS
from ociruntime.runtime.spec.config_types import Hook

# The placeholder for the pid, which only the executor knows.  It is unique: a JSON string cannot
# contain the key's unescaped quotes, and no pid is as large.
PID_PLACE = '"pid":4294967295'
_LONGEST = (1 << 32) - 1  # seconds: the largest u32, more than 136 years


def compile_create_hooks(job: Compilation) -> None:
    """Append operations for prestart, createRuntime and createContainer hooks.

    All of these hooks run before pivot_root(2).
    """
    hooks = job.config.get("hooks") or {}
    if hooks.get("prestart") or hooks.get("createRuntime"):
        job.require_cgroup()
        where = "hooks.prestart" if hooks.get("prestart") else "hooks.createRuntime"
        job.add(operations.sync(stage=STAGE_HOOKS, where=where))
    if hooks.get("createContainer"):
        job.require_cgroup()
        _add(job, "createContainer", hooks["createContainer"], "creating", [])


def compile_start_hooks(job: Compilation) -> None:
    """Append operations for startContainer hooks, which run in the container before its program.

    A hook without ``env`` gets the environment of the container's process, as engines expect.
    """
    hooks = job.config.get("hooks") or {}
    if hooks.get("startContainer"):
        env = job.config["process"].get("env") or []
        _add(job, "startContainer", hooks["startContainer"], "created", env)


def _add(job: Compilation, kind: str, hooks: list[Hook], status: str, env: list[str]) -> None:
    from ociruntime.base.json_text import dump
    from ociruntime.runtime.spec.state_document import SPEC_VERSION, state_document

    state = dump(
        state_document(
            SPEC_VERSION,
            job.request.id,
            status,
            4294967295,
            job.request.bundle,
            job.config.get("annotations") or {},
        ),
    )
    before, _, after = state.partition(PID_PLACE)
    for index, hook in enumerate(hooks):
        hook_env = hook.get("env")
        job.add(
            operations.hook(
                source=hook["path"],
                args=hook.get("args") or [hook["path"]],
                env=env if hook_env is None else hook_env,
                with_home=int(hook_env is None and kind == "startContainer"),
                timeout=min(hook.get("timeout") or 0, _LONGEST),
                state_before=before + '"pid":',
                state_after=after,
                where=f"hooks.{kind}[{index}]",
            ),
        )
