"""Wait for a container's init to exit, if the calling process is its parent."""

from __future__ import annotations

import os

from ociruntime.base.process import await_end, end_status, open_child
from ociruntime.runtime.lifecycle.container import load
from ociruntime.runtime.lifecycle.container_id import check_id
from ociruntime.runtime.lifecycle.context import Context


def wait(context: Context, container_id: str, seconds: float | None = None) -> int | None:
    """Wait for a container's init to exit; return its exit status (128+n if signal n killed it).

    Returns None if the init is not a child of this process, which then cannot get the status.

    Raises UsageError, NoSuchContainer, HostError, and TimeoutError after ``seconds``.
    """
    check_id(container_id)
    container = load(context.root, container_id)
    pidfd = open_child(container.pid, container.started)
    if pidfd < 0:
        return None
    try:
        return status_of(pidfd, container_id, seconds)
    finally:
        os.close(pidfd)


def status_of(pidfd: int, name: str, seconds: float | None) -> int | None:
    """Wait until the child ``pidfd`` exits; return its exit status, 128+n if signal n killed it.

    Returns None if it has been reaped already.  Raises TimeoutError after ``seconds`` (None:
    never); its message calls the process ``name``.
    """
    if not await_end(pidfd, seconds):
        raise TimeoutError(f"wait for {name}: timed out after {seconds} s")
    return end_status(pidfd)
