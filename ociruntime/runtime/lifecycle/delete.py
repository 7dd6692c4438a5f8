"""`delete`: remove a container and all its state; its fast path is `csrc/fast_path/delete.c`.

This file waits for the exit of the init; ``runtime/cgroups/cgroup_directory.py`` waits for the
other processes.
"""

from __future__ import annotations

import posix

from ociruntime.base.errors import ContainerError, HostError, NoSuchContainer
from ociruntime.base.files import exists
from ociruntime.base.process import (
    SIGKILL,
    await_end,
    is_dying,
    open_process,
    send_signal,
    signal_process,
)
from ociruntime.runtime.host.state_directory import (
    ROOT_MOUNT,
    Lock,
    clear_stale,
    remove_directory,
    stale_directories,
)
from ociruntime.runtime.lifecycle.container import (
    CREATED,
    RUNNING,
    STOPPED,
    Container,
    document,
    load,
    lock,
)
from ociruntime.runtime.lifecycle.container_id import check_id
from ociruntime.runtime.lifecycle.context import Context

TRACED_SECONDS = 1.0  # wait for the init before killing the container's other processes, too
KILL_SECONDS = 10.0  # wait for the init's exit after SIGKILL
BUSY_SECONDS = 1.0  # wait of `delete --force` for another command's lock


def delete(context: Context, container_id: str, force: bool) -> None:
    """Delete a container that has stopped or was never started; with ``force``, in any state.

    With ``force``, an unknown id is not an error.  Raises UsageError for an invalid id,
    NoSuchContainer, ContainerError, HostError.
    """
    check_id(container_id)
    clear_interrupted(context, container_id)
    try:
        container, held = _lock(context, container_id, force)
    except NoSuchContainer:
        if force:
            return
        raise
    try:
        status = container.status()
        # After `kill ID KILL`, the init may need a moment to exit, for which ``destroy`` waits.
        if not (
            force or status in (STOPPED, CREATED) or (status == RUNNING and is_dying(container.pid))
        ):
            raise ContainerError(
                f'cannot delete container "{container_id}" that is not stopped: {status}',
                "stop it first, or pass --force",
            )
        destroy(context, container)
    finally:
        held.release()


def _lock(context: Context, container_id: str, force: bool) -> tuple[Container, Lock]:
    """Return the container with this id, and a lock on it.

    If another process holds the lock, ``force`` kills the container's init.  This ends a `start`
    that holds the lock: one that waits for a hook, or for an init that another process has stopped
    with ptrace(2).
    """
    if force:
        try:
            return lock(context.root, container_id, BUSY_SECONDS)
        except ContainerError:
            container = load(context.root, container_id)
            signal_process(container.pid, container.started, SIGKILL)
    return lock(context.root, container_id)


def destroy(context: Context, container: Container) -> None:
    """Kill and remove a locked container in any state, then run its poststop hooks.

    Raises HostError if a part of its state cannot be removed; the caller may then try again.
    """
    _end(container)
    container.cgroup().remove(kill=True)
    if exists(f"{container.directory}/{ROOT_MOUNT}"):
        from ociruntime.runtime.lifecycle.root_mount import clear

        clear(container.directory, context.log)
    if exists(f"{container.directory}/rdt.json"):
        from ociruntime.runtime.lifecycle.intel_rdt_groups import leave

        leave(container.directory)
    remove_directory(container.directory)
    hooks = container.facts["hooks"].get("poststop")
    if hooks:
        from ociruntime.base.json_text import dump
        from ociruntime.runtime.host.hooks import run_poststop_hooks
        from ociruntime.runtime.spec.annotations import hook_outputs

        container.enter_bundle()
        state = dump(document(container, STOPPED))
        outputs = hook_outputs(container.annotations)
        for warning in run_poststop_hooks(hooks, state, context.log.debug, outputs, context.alone):
            context.log.warning(warning)


def _end(container: Container) -> None:
    """Kill the container's init and wait for it to exit.

    Raises HostError if it has not exited after KILL_SECONDS, and ContainerError if a frozen parent
    cgroup keeps it alive.
    """
    pidfd = open_process(container.pid, container.started)
    if pidfd < 0:
        return
    try:
        send_signal(pidfd, SIGKILL, container.pid)
        if container.facts["freezer"]:
            container.cgroup().let_die()
        if not await_end(pidfd, TRACED_SECONDS):
            _refuse_frozen(container)
            # Another process of the container may trace the init, and so delay its exit.
            container.cgroup().kill()
        if not await_end(pidfd, KILL_SECONDS):
            raise HostError(
                f'kill process {container.pid} of container "{container.id}"',
                OSError(110, "timed out"),
                "it is stuck in the kernel (D state) and does not exit after SIGKILL",
            )
    finally:
        posix.close(pidfd)


def _refuse_frozen(container: Container) -> None:
    """Raise ContainerError if a frozen parent cgroup keeps the container's processes alive."""
    above = container.cgroup().frozen_above(undying=True)
    if above:
        raise ContainerError(
            f'kill process {container.pid} of container "{container.id}":'
            f' cgroup "{above}" is frozen',
            f'thaw it (write THAWED to "{above}/freezer.state"), then delete the container again',
        )


def clear_interrupted(context: Context, container_id: str) -> None:
    """Remove the stale state that an interrupted ``create`` or ``delete`` of this id has left.

    Does not touch a new container with the same id.  Raises ContainerError if a ``create`` or
    ``delete`` of this id is still running, and HostError.
    """
    for path in stale_directories(context.root, container_id):
        from ociruntime.runtime.lifecycle.create_steps import clear_recorded

        clear_stale(path, container_id, lambda stale: clear_recorded(stale, context.log))
