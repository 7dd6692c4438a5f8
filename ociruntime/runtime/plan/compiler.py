"""Compile config.json and facts about the host to a plan: the operations for the executor.

The passes run in the order of ``PASSES``; each of them appends operations.
"""

from __future__ import annotations

from collections.abc import Callable

from ociruntime.runtime.plan.compiler_state import Compilation
from ociruntime.runtime.plan.devices import compile_devices
from ociruntime.runtime.plan.facts import HostFacts, Request
from ociruntime.runtime.plan.hooks import compile_create_hooks
from ociruntime.runtime.plan.mounts import compile_mounts, compile_read_only_mounts
from ociruntime.runtime.plan.namespaces import compile_namespace_settings, compile_namespaces
from ociruntime.runtime.plan.plan import Plan
from ociruntime.runtime.plan.process import compile_process
from ociruntime.runtime.plan.rootfs import (
    compile_entry,
    compile_path_restrictions,
    compile_root,
    compile_working_directory,
)
from ociruntime.runtime.spec.config_types import Config

PASSES: tuple[Callable[[Compilation], None], ...] = (
    compile_namespaces,
    compile_root,
    compile_mounts,
    compile_devices,
    compile_read_only_mounts,
    compile_namespace_settings,
    Compilation.enter_cgroup_namespace,
    compile_create_hooks,
    compile_working_directory,
    compile_path_restrictions,
    compile_entry,
    compile_process,
)


def compile_plan(config: Config, facts: HostFacts, request: Request) -> Plan:
    """Return the executor's plan for a container.

    ``config`` must have passed the checks of runtime/spec/check_schema.py and validate.py.  Raises
    ConfigError for a valid setting that cannot be applied on this host.
    """
    job = Compilation(config, facts, request)
    for compile_part in PASSES:
        compile_part(job)
    return job.plan
