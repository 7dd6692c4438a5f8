"""`list`: return the state of all containers in a state root."""

from __future__ import annotations

import errno
from typing import Any

from ociruntime.base.errors import HostError, NoSuchContainer, RuntimeFailure
from ociruntime.runtime.host.state_directory import container_ids
from ociruntime.runtime.lifecycle.container import load
from ociruntime.runtime.lifecycle.context import Context
from ociruntime.runtime.lifecycle.state import describe_container


def list_containers(context: Context) -> list[dict[str, Any]]:
    """Return the states of all containers, sorted by id.

    Omits a container that is deleted before its state is read, and logs a warning for a damaged
    one.  Raises HostError if the state root is unreadable, if other users can change it, or if it
    was given with ``--root`` and does not exist.
    """
    try:
        ids = container_ids(context.root)
    except HostError as error:
        if error.errno == errno.ENOENT and not context.root_given:
            return []
        raise
    documents = []
    for container_id in ids:
        try:
            documents.append(describe_container(load(context.root, container_id)))
        except (NoSuchContainer, FileNotFoundError):
            continue
        except RuntimeFailure as error:
            context.log.warning(f'list container "{container_id}": {error}')
    return documents
