"""`state`: show a container's properties and status; its fast path is `csrc/fast_path/state.c`."""

from __future__ import annotations

from typing import Any

from ociruntime.base.errors import HostError, NoSuchContainer
from ociruntime.runtime.lifecycle.container import STOPPED, Container, load, owner_of
from ociruntime.runtime.lifecycle.container_id import check_id
from ociruntime.runtime.lifecycle.context import Context
from ociruntime.runtime.spec.state_document import state_output


def state(context: Context, container_id: str) -> dict[str, Any]:
    """Return the container's state (runtime.md#query-state), with runc's members in runc's order.

    Raises UsageError for an invalid id, NoSuchContainer and HostError.
    """
    check_id(container_id)
    return describe_container(load(context.root, container_id))


def describe_container(container: Container) -> dict[str, Any]:
    """Return the document that `state` prints for a loaded container.

    Raises NoSuchContainer if the container was deleted after it was loaded, and HostError.
    """
    status = container.status()
    pid = 0 if status == STOPPED else container.pid
    try:
        owner = owner_of(container.directory)[1]
    except HostError as error:
        if error.errno == 2:
            raise NoSuchContainer(container.id) from None  # deleted in the meantime
        raise
    return state_output(container.facts, status, pid, owner)
