"""`pause` and `resume`: freeze and thaw all processes of a container through its cgroup.

The fast path is ``csrc/fast_path/pause.c``.

Both are idempotent, as in crun, so that a caller that was killed can repeat the call.  (runc
refuses a second pause with a message that containerd misreads as "has ended".)
"""

from __future__ import annotations

from ociruntime.base.errors import ContainerError, HostError, NotRunning
from ociruntime.runtime.lifecycle.container import Container, lock
from ociruntime.runtime.lifecycle.container_id import check_id
from ociruntime.runtime.lifecycle.context import Context


def pause(context: Context, container_id: str) -> None:
    """Freeze all processes of a container and wait until they are frozen; on failure, thaw them.

    Raises UsageError for an invalid id, NoSuchContainer, NotRunning, ContainerError and HostError.
    """
    _change(context, container_id, freeze=True)


def resume(context: Context, container_id: str) -> None:
    """Thaw all processes of a container.  Raises the errors of :func:`pause`."""
    _change(context, container_id, freeze=False)


def _change(context: Context, container_id: str, *, freeze: bool) -> None:
    check_id(container_id)
    container, held = lock(context.root, container_id)
    try:
        if not container.alive():
            raise NotRunning(container_id)
        _apply(container, freeze=freeze)
    finally:
        held.release()


def _apply(container: Container, *, freeze: bool) -> None:
    cgroup = container.cgroup()
    if not cgroup.freezable:
        verb = "pause" if freeze else "resume"
        raise ContainerError(
            f'cannot {verb} container "{container.id}": it has no cgroup with a freezer',
            "create it with a cgroup of its own, and on cgroup v1 mount the freezer controller",
        )
    if not freeze:
        cgroup.thaw()
        if above := cgroup.frozen_above():
            raise ContainerError(
                f'cannot resume container "{container.id}": cgroup "{above}" above it is frozen',
                "thaw that cgroup",
            )
        return
    try:
        cgroup.freeze()
    except HostError:
        # Check whether the container has exited: on v2, a cgroup without processes never freezes.
        if not container.alive():
            cgroup.thaw()
            raise NotRunning(container.id) from None
        raise
