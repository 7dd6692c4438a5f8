"""`mounts add` and `mounts remove`: further mounts in a container that is created or running."""

from __future__ import annotations

import posix

from ociruntime.errors import NotRunning, RuntimeFailure, StepError
from ociruntime.executor.failure import failure
from ociruntime.executor.protocol import receive
from ociruntime.executor.spawn import spawn
from ociruntime.host.facts import gather
from ociruntime.host.namespaces import namespaces_apart
from ociruntime.host.process import end_on_signals, open_process
from ociruntime.linux import CLONE_NEWNS
from ociruntime.plan.facts import Request
from ociruntime.plan.further_mounts import Place, compile_adding, compile_removing, compile_undoing
from ociruntime.plan.ops import MESSAGE_STAGE
from ociruntime.runtime.container import lock
from ociruntime.runtime.identifier import check_id
from ociruntime.spec import shape
from ociruntime.spec.check import check
from ociruntime.spec.load import parse, read
from ociruntime.spec.validate_mounts import validate_mounts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ociruntime.executor.protocol import Message
    from ociruntime.plan.plan import Plan
    from ociruntime.runtime.container import Container
    from ociruntime.runtime.options import Context
    from ociruntime.spec.document import Config, Mount


def change_mounts(context: Context, container_id: str, path: str, *, remove: bool) -> None:
    """Mount what the file lists, all of it or nothing; or unmount its destinations, the last first.

    The file holds an array like ``mounts`` of config.json.  Raises UsageError, ConfigError,
    NoSuchContainer, NotRunning, StepError, HostError.
    """
    check_id(container_id)
    document: Any = parse(read(path), path.rpartition("/")[2])
    check(document, "array", (0, "object", shape.MOUNT), "mounts")
    end_on_signals()
    container, held = lock(context.root, container_id)
    try:
        if not container.alive():
            raise NotRunning(container_id)
        if remove:
            _remove(container, document)
        else:
            _add(context, container, document)
    finally:
        held.release()


def _add(context: Context, container: Container, mounts: list[Mount]) -> None:
    config: Config = {**container.config(), "mounts": mounts}
    linux = config.get("linux") or {}
    warnings: list[str] = []
    validate_mounts(mounts, {each["type"]: "" for each in linux.get("namespaces") or ()}, warnings)
    request, place = _request(container), _place(container)
    facts = gather("", (), bool(linux.get("mountLabel")))
    plan = compile_adding(config, facts, request, place)
    for warning in warnings + plan.warnings:
        context.log.warning(warning)
    failed = _carry_out(container, plan)
    if failed is not None:
        undoing = compile_undoing(plan, failed.value, facts, request, place)
        undone = _carry_out(container, undoing)
        if undone is not None:
            context.log.warning(str(_told(container, undoing, undone)))
        raise _told(container, plan, failed)


def _remove(container: Container, mounts: list[Mount]) -> None:
    config: Config = {**container.config(), "mounts": mounts}
    plan = compile_removing(config, gather("", ()), _request(container), _place(container))
    failed = _carry_out(container, plan)
    if failed is not None:
        raise _told(container, plan, failed)


def _place(container: Container) -> Place:
    apart = namespaces_apart(container.pid)
    if not apart & CLONE_NEWNS:
        raise StepError(
            f'"{container.id}" has no mount namespace of its own',
            "mounts would be the host's",
        )
    return Place(container.pid, apart)


def _request(container: Container) -> Request:
    facts = container.facts
    return Request(id=container.id, bundle=facts["bundle"], rootfs=facts["rootfs"])


def _carry_out(container: Container, plan: Plan) -> Message | None:
    """Have an executor do it, which is ended when it says that all is done; or its failure."""
    init_fd = open_process(container.pid, container.started)
    if init_fd < 0:
        raise NotRunning(container.id)
    try:
        executor = spawn(plan, init_fd, -1)
    finally:
        posix.close(init_fd)
    try:
        message = receive(executor.channel)
    finally:
        executor.kill()
        executor.channel.close()
        posix.close(executor.pidfd)
    if message is None:
        raise StepError("the process that was to mount has been killed")
    return None if message.kind == MESSAGE_STAGE else message


def _told(container: Container, plan: Plan, message: Message) -> RuntimeFailure:
    if not container.alive():
        return NotRunning(container.id)
    known = message.value < len(plan.operations)
    return failure(plan.operations[message.value] if known else None, message)
