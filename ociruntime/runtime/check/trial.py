"""Create the test container of `check`, up to the start of its program, and remove it.

The plan is compiled from the config of ``ociruntime spec``, for an empty root filesystem, without a
program or a cgroup.  It creates only namespaces and the mounts in them; the kernel removes both
when the container's init exits.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile

from ociruntime.base.errors import RuntimeFailure, StepError
from ociruntime.runtime.cgroups.control_files import in_user_namespace
from ociruntime.runtime.check.finding import MISSING, OK, Answer, Host, Json, Probe
from ociruntime.runtime.executor.failure_messages import failure
from ociruntime.runtime.executor.protocol import go, receive
from ociruntime.runtime.executor.spawn import Executor, spawn
from ociruntime.runtime.host.gather_facts import gather
from ociruntime.runtime.host.idmap import write_maps
from ociruntime.runtime.host.namespaces import obstacle
from ociruntime.runtime.plan import operation_table as ops
from ociruntime.runtime.plan.compiler import compile_plan
from ociruntime.runtime.plan.facts import Request
from ociruntime.runtime.plan.plan import Plan, operation_name
from ociruntime.runtime.spec.default_config import default_config

LEFT_OUT = ("find_executable",)  # the root filesystem has no program


def trial(host: Host) -> Answer:
    """Create and remove a test container; report whether that works and, if not, the remedy."""
    try:
        directory = tempfile.mkdtemp(prefix="ociruntime-check-")
    except OSError as error:
        return Answer(MISSING, f"create a temporary directory: {error.strerror}")
    try:
        config: Json = default_config(host.rootless, os.geteuid(), os.getegid())
        config["process"]["terminal"] = False
        config["mounts"] = [each for each in config["mounts"] if each["type"] != "cgroup"]
        os.chmod(directory, 0o755)
        plan = trial_plan(config, directory)
        build(plan, config["linux"])
    except RuntimeFailure as error:
        return Answer(MISSING, error.message, remedy=error.hint)
    except OSError as error:
        return Answer(MISSING, f"create a test container: {error.strerror}")
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return Answer(OK, f"created and removed a test container ({len(plan.operations)} operations)")


def trial_plan(config: Json, rootfs: str) -> Plan:
    """Return the plan of ``create`` for ``config``, without the operations in ``LEFT_OUT``.

    Raises RuntimeFailure if the config cannot be compiled.
    """
    facts = gather("v1", (), user_namespace=in_user_namespace())
    plan = compile_plan(config, facts, Request(id="check", bundle=rootfs, rootfs=rootfs))
    plan.operations = [each for each in plan.operations if operation_name(each) not in LEFT_OUT]
    return plan


def build(plan: Plan, linux: Json) -> None:
    """Execute the plan in new namespaces until the init waits for ``start``, then kill it.

    Raises RuntimeFailure if an operation fails.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as gate:
        executor = spawn(plan, gate.fileno(), -1)
    try:
        _answer(executor, linux)
    finally:
        executor.discard()


def _answer(executor: Executor, linux: Json) -> None:
    while (message := receive(executor.channel)) is not None:
        if message.kind == ops.MESSAGE_FAILURE:
            error = failure(executor.plan.operations[message.value], message)
            error.hint = error.hint or obstacle(message.error)
            raise error
        if message.kind == ops.MESSAGE_INIT_PID:
            executor.became(message)
        elif message.value == ops.STAGE_READY:
            return
        elif message.value == ops.STAGE_MAPS:
            write_maps(executor.pid, linux["uidMappings"], linux["gidMappings"])
            go(executor.channel)
        else:
            go(executor.channel)
    raise StepError("create the test container: its init was killed before it was ready")


TRIAL: tuple[Probe, ...] = (
    Probe("a whole container", trial, "every container fails in the same way", "", essential=True),
)
