"""`mounts add` and `mounts remove`: change the mounts of a created or running container."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ociruntime.base.errors import ContainerError, HostError, NotRunning, RuntimeFailure, StepError
from ociruntime.base.files import read_file, replace_file
from ociruntime.base.json_text import dump, parse
from ociruntime.base.linux import CLONE_NEWNS
from ociruntime.base.mountinfo import Mount as ShownMount
from ociruntime.base.mountinfo import parse_mountinfo
from ociruntime.base.process import end_on_signals, no_longer_end_on_signals, open_process
from ociruntime.runtime.executor.failure_messages import failure
from ociruntime.runtime.executor.protocol import Message, go, is_complete, receive, skip, unexpected
from ociruntime.runtime.executor.spawn import spawn
from ociruntime.runtime.host.gather_facts import gather
from ociruntime.runtime.host.mount_namespaces import MountId, mount_id
from ociruntime.runtime.host.namespaces import namespaces_apart
from ociruntime.runtime.lifecycle.container import Container, lock
from ociruntime.runtime.lifecycle.container_id import check_id
from ociruntime.runtime.lifecycle.context import Context
from ociruntime.runtime.plan.facts import Request
from ociruntime.runtime.plan.live_mounts import (
    RunningContainer,
    compile_adding,
    compile_removing,
    compile_undoing,
)
from ociruntime.runtime.plan.operation_table import (
    MESSAGE_FAILURE,
    MESSAGE_MOUNT,
    MESSAGE_STAGE,
    STAGE_DONE,
)
from ociruntime.runtime.plan.plan import Operation, Plan, field
from ociruntime.runtime.spec import schema
from ociruntime.runtime.spec.check_schema import check
from ociruntime.runtime.spec.config_types import Config, Mount
from ociruntime.runtime.spec.load_config import read
from ociruntime.runtime.spec.validate import validate_mounts

Recognise = Callable[[Operation, MountId, list[ShownMount]], bool]


def change_mounts(context: Context, container_id: str, path: str, *, remove: bool) -> None:
    """Add the mounts listed in the file ``path`` to a container; with ``remove``, unmount them.

    The file contains a JSON array like ``mounts`` of config.json.  If a mount cannot be added, none
    of the mounts is added.  With ``remove``, the last mount in the array is unmounted first.
    Raises UsageError for an invalid id, ConfigError for an invalid file, NoSuchContainer,
    NotRunning, StepError and HostError.
    """
    check_id(container_id)
    document: Any = parse(read(path), path.rpartition("/")[2])
    check(document, "array", (0, "object", schema.MOUNT), "mounts")
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
    request, entered = _request(container), _running(container)
    facts = gather("", (), bool(linux.get("mountLabel")))
    plan = compile_adding(config, facts, request, entered)
    for warning in warnings + plan.warnings:
        context.log.warning(warning)
    before = read_added(container.directory)
    new: list[tuple[AddedMount, str]] = []

    def record(operation: Operation, found: MountId, shown: list[ShownMount]) -> bool:
        new.append((AddedMount(str(field(operation, "target")), found), operation.where))
        present = [*still_mounted(before, shown), *(added for added, _ in new)]
        write_added(container.directory, present)
        return True

    def undo() -> list[str]:
        failures = []
        for added, where in reversed(new):
            undoing = compile_undoing(added.destination, where, facts, request, entered)
            failures += _undo(container, undoing, added)
        return failures

    try:
        carry_out(plan, container.pid, container.started, record)
        no_longer_end_on_signals()  # all mounts are made: the command has succeeded
    except RuntimeFailure as error:
        failures = undo()
        if failures:
            raise StepError(f"{error} (not undone: {'; '.join(failures)})") from None
        raise _reason(container, error) from None
    except BaseException:
        undo()
        raise


def _undo(container: Container, plan: Plan, added: AddedMount) -> list[str]:
    """Unmount a mount that `mounts add` made; return a list of at most one error message."""

    def is_ours(operation: Operation, found: MountId, shown: list[ShownMount]) -> bool:
        if not still_mounted([added], shown):
            return False  # it was never attached
        mounts = {mount.id: mount for mount in shown}
        check_removal(added.destination, operation.where, found, [added], mounts)
        return True

    try:
        carry_out(plan, container.pid, container.started, is_ours)
        _forget(container, added.id)
    except RuntimeFailure as error:
        return [str(error)] if container.alive() else []
    return []


def _remove(container: Container, mounts: list[Mount]) -> None:
    config: Config = {**container.config(), "mounts": mounts}
    request, entered = _request(container), _running(container)
    added = read_added(container.directory)
    recorded = {each.destination for each in added}
    plan = compile_removing(config, gather("", ()), request, entered, recorded)

    def is_meant(operation: Operation, found: MountId, shown: list[ShownMount]) -> bool:
        target = str(field(operation, "target"))
        present = still_mounted(read_added(container.directory), shown)
        mounts = {mount.id: mount for mount in shown}
        check_removal(target, operation.where, found, present, mounts)
        removed.append(found)
        return True

    removed: list[MountId] = []
    try:
        carry_out(plan, container.pid, container.started, is_meant)
        no_longer_end_on_signals()
    except RuntimeFailure as error:
        raise _reason(container, error) from None
    finally:
        # Update mounts.json last: the next command drops entries of mounts that no longer exist.
        for found in removed:
            _forget(container, found)


def _forget(container: Container, mount: MountId) -> None:
    """Remove a mount from mounts.json."""
    added = read_added(container.directory)
    remaining = [each for each in added if not each.id.is_same(mount)]
    if len(remaining) != len(added):
        write_added(container.directory, remaining)


def _running(container: Container) -> RunningContainer:
    """Return the container's init and namespaces, for a plan that enters them.

    Raises StepError if the container has no mount namespace of its own.
    """
    apart = namespaces_apart(container.pid)
    if not apart & CLONE_NEWNS:
        raise StepError(
            f'change mounts: container "{container.id}" has no mount namespace of its own',
            "its mounts are the host's, and changing them would change the host",
        )
    return RunningContainer(container.pid, apart)


def _request(container: Container) -> Request:
    facts = container.facts
    return Request(id=container.id, bundle=facts["bundle"], rootfs=facts["rootfs"])


def carry_out(plan: Plan, pid: int, started: int, recognise: Recognise) -> None:
    """Run an executor that carries out ``plan`` in the mount namespace of process ``pid``.

    ``started`` is the start time of that process.  Before the executor attaches, changes or
    unmounts a mount, ``recognise`` is called with the operation, the mount's id and the mounts of
    the namespace; if it returns False, the executor skips the operation.  Raises StepError,
    HostError, NotRunning, and the errors of ``recognise``.
    """
    init_fd = open_process(pid, started)
    if init_fd < 0:
        raise NotRunning(str(pid))
    try:
        executor = spawn(plan, init_fd, -1)
    finally:
        os.close(init_fd)
    try:
        message = receive(executor.channel)
        while message is not None and message.kind == MESSAGE_MOUNT:
            answer = go if _recognised(plan, executor.pid, message, recognise) else skip
            answer(executor.channel)
            message = receive(executor.channel)
    finally:
        executor.channel.close()  # first: at its end, an executor that cannot be killed exits
        executor.kill()
        os.close(executor.pidfd)
    if message is None:
        raise StepError(
            f"change the mounts of process {pid}: the executor was killed before it had finished"
        )
    if message.kind == MESSAGE_FAILURE:
        known = message.value < len(plan.operations)
        raise failure(plan.operations[message.value] if known else None, message)
    if (message.kind, message.value) != (MESSAGE_STAGE, STAGE_DONE):
        raise unexpected(message)


def _recognised(plan: Plan, executor: int, message: Message, recognise: Recognise) -> bool:
    """Return whether ``recognise`` accepts the mount whose descriptor the executor has sent.

    ``executor`` is the executor's pid.  Closes the descriptor.  Raises HostError, and StepError if
    the message has no descriptor.
    """
    if not is_complete(message):
        raise unexpected(message)
    try:
        found = mount_id(message.fd)
    finally:
        os.close(message.fd)
    # Read the executor's mountinfo: a process of the container may have another root directory.
    path = f"/proc/{executor}/mountinfo"
    try:
        text = read_file(path).decode("utf-8", "surrogateescape")
    except OSError as error:
        raise HostError(f'read "{path}"', error) from None
    return recognise(plan.operations[message.value], found, parse_mountinfo(text))


def _reason(container: Container, error: RuntimeFailure) -> RuntimeFailure:
    """Return ``error``, or NotRunning if the container's init has exited during the change."""
    return error if container.alive() else NotRunning(container.id)


# The record of mounts made by `mounts add`, by which `mounts remove` recognises them.
#
# A process in the container can replace the directories above a mount point.  A destination
# therefore does not identify a mount: it may now lead to the read-only bind mount on /proc/sys.
#
# ``mounts.json`` in the state directory holds destination and mount id of each added mount.  It is
# written before the mount is attached, so a killed `mounts add` leaves at most a stale entry.  An
# entry whose mount is not in mountinfo is dropped.

FILE = "mounts.json"


class AddedMount:
    """A mount made by `mounts add`: its normalized destination, and its id in the kernel."""

    __slots__ = ("destination", "id")

    def __init__(self, destination: str, mount_id: MountId) -> None:
        self.destination = destination
        self.id = mount_id


def read_added(directory: str) -> list[AddedMount]:
    """Return the mounts recorded in mounts.json, oldest first; [] if there is no such file.

    ``directory`` is the container's state directory.  Raises HostError, and ContainerError if the
    file is damaged.
    """
    path = f"{directory}/{FILE}"
    try:
        document: Any = parse(read_file(path), path)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise HostError(f'read "{path}"', error) from None
    added = []
    for entry in document if isinstance(document, list) else [None]:
        match entry:
            case [str(where), int(number), int(unique)]:
                added.append(AddedMount(where, MountId(number, unique)))
            case _:
                raise ContainerError(f'read "{path}": the file is damaged', "delete the container")
    return added


def write_added(directory: str, added: Iterable[AddedMount]) -> None:
    """Replace the mounts.json of a state directory.  Raises HostError."""
    path = f"{directory}/{FILE}"
    lines = [[each.destination, each.id.number, each.id.unique] for each in added]
    try:
        replace_file(path, dump(lines).encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise HostError(f'write "{path}"', error) from None


def still_mounted(added: Iterable[AddedMount], mounts: Iterable[ShownMount]) -> list[AddedMount]:
    """Return the mounts in ``added`` whose ids occur in ``mounts``, the mounts of the namespace."""
    numbers = {mount.id for mount in mounts}
    return [each for each in added if each.id.number in numbers]


def check_removal(
    target: str,
    where: str,
    found: MountId,
    added: Iterable[AddedMount],
    mounts: Mapping[int, ShownMount],
) -> None:
    """Raise StepError unless the mount ``found``, reached through ``target``, may be unmounted.

    If `mounts add` has mounted something at ``target``, only that mount may be unmounted; otherwise
    ``target`` must be a mount point.  ``where`` is the JSON path for the message, ``added`` the
    record of `mounts add`, and ``mounts`` the mounts of the namespace by id.
    """
    action = f'{where}: unmount "{target}"'
    shown = mounts.get(found.number)
    if shown is None:
        raise StepError(f"{action}: nothing is mounted at this path")
    ours = [each for each in added if each.destination == target]
    if not ours:
        if shown.target != target:
            raise StepError(f"{action}: nothing is mounted at this path")
        return
    if any(each.id.is_same(found) for each in ours):
        return
    targets = [mounts[each.id.number].target for each in ours if each.id.number in mounts]
    raise StepError(
        f'{action}: the path leads to another mount, at "{shown.target}"',
        "a process in the container has moved the added mount to "
        + " and ".join(f'"{each}"' for each in targets),
    )
