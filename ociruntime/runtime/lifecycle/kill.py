"""`kill`: send a signal to a container's init; its fast path is `csrc/fast_path/kill.c`."""

from __future__ import annotations

import posix

from ociruntime.base.errors import NotRunning
from ociruntime.base.process import SIGKILL, signal_process
from ociruntime.runtime.lifecycle.container import Container, load
from ociruntime.runtime.lifecycle.container_id import check_id
from ociruntime.runtime.lifecycle.context import Context

CHILDLESS = 2  # st_nlink of a cgroup directory without child cgroups


def stop_signal(context: Context, container_id: str) -> str:
    """Return the stop signal in a container's annotations, or ``SIGTERM`` if there is none.

    The annotation, a name or a number, is not checked.  Raises UsageError for an invalid id,
    NoSuchContainer and HostError.
    """
    check_id(container_id)
    annotations = load(context.root, container_id).annotations
    return annotations.get("org.opencontainers.image.stopSignal") or "SIGTERM"


def kill(context: Context, container_id: str, signal: int, all: bool) -> None:
    """Send ``signal`` to a container's init or, with ``all``, to every process of the container.

    Raises UsageError for an invalid id, NoSuchContainer, HostError and, without ``all``, NotRunning
    if the container has stopped.
    """
    check_id(container_id)
    container = load(context.root, container_id)
    if all:
        _signal_all(container, signal)
        return
    if not signal_process(container.pid, container.started, signal):
        if signal != SIGKILL or container.facts["ownPidNamespace"]:
            raise NotRunning(container_id)
        # The init has exited; in a shared pid namespace its other processes may still run.
        cgroup = container.cgroup()
        if not cgroup.processes():
            raise NotRunning(container_id)
        cgroup.kill()
        return
    if signal == SIGKILL:
        _complete_sigkill(container)


def _complete_sigkill(container: Container) -> None:
    """Make the container's other processes exit too, after SIGKILL was sent to the init.

    In a shared pid namespace they must be killed as well.  On cgroup v1, frozen processes must be
    thawed before they can exit.
    """
    if not container.facts["ownPidNamespace"]:
        container.cgroup().kill()
    elif container.facts["freezer"].endswith("freezer.state"):
        _thaw(container.facts["freezer"])


def _thaw(path: str) -> None:
    """Thaw a v1 cgroup if it is frozen or has child cgroups; ``path`` is its file freezer.state."""
    from ociruntime.base.files import read_file

    directory = path.rpartition("/")[0]
    try:
        frozen = read_file(path).strip() != b"THAWED" or posix.stat(directory).st_nlink > CHILDLESS
    except OSError:
        return  # the cgroup was removed with its last process
    if frozen:
        from ociruntime.runtime.cgroups.freezer import thaw_tree

        thaw_tree(directory)


def _signal_all(container: Container, signal: int) -> None:
    if signal == SIGKILL:
        container.cgroup().kill()  # also kills processes that fork faster than we can list them
    from ociruntime.runtime.lifecycle.container_processes import signal_members

    signal_members(container, signal)
