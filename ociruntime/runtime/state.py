"""`state`: what a container is and how it is now."""

from __future__ import annotations

from ociruntime.runtime.container import document, load, owner_name
from ociruntime.runtime.identifier import check_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ociruntime.runtime.container import Container
    from ociruntime.runtime.options import Context


def state(context: Context, container_id: str) -> dict[str, Any]:
    """The state document (runtime.md#query-state) with runc's additions, in runc's order.

    Raises UsageError, NoSuchContainer, HostError.
    """
    check_id(container_id)
    return describe_container(load(context.root, container_id))


def describe_container(container: Container) -> dict[str, Any]:
    """The spec's keys plus ``rootfs``, ``created`` and ``owner``, as `list` shows them too."""
    state = document(container, container.status())
    described = {key: state[key] for key in ("ociVersion", "id", "pid", "status", "bundle")}
    described["rootfs"] = container.facts["rootfs"]
    described["created"] = container.facts["created"]
    if container.annotations:
        described["annotations"] = container.annotations
    described["owner"] = owner_name(container.directory)
    return described
