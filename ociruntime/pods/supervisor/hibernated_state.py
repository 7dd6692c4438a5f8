"""Hibernation of a pod's monitor: when to hibernate, and the snapshot to restore from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ociruntime.pods.loop.control_socket import ControlSocket
from ociruntime.pods.supervisor import hibernation
from ociruntime.pods.supervisor.requests import Requests

if TYPE_CHECKING:
    from ociruntime.pods.supervisor.supervise import Supervisor

Snapshot = dict[str, Any]


def sleep_when_quiet(pod: Supervisor, timeout: float = 0) -> None:
    """Hibernate from now on after ``timeout`` seconds without an event, 0 for the default."""
    # Never while a user is attached to the terminal, nor for kvm pods: the machine is large anyway,
    # and its state (a child with a result to be read) is not worth serialising.
    if pod.terminal is None and pod.context.can_hibernate:
        pod.loop.idle_timeout = timeout or hibernation.first_timeout()
        pod.loop.on_quiet = lambda: _sleep(pod)


def _sleep(pod: Supervisor) -> None:
    if not is_quiet(pod):
        return
    title = f"ocipod monitor {pod.uuid} (idle)"
    try:
        snapshot = take_snapshot(pod)
        hibernation.try_to_sleep(
            pod.loop, title, _command(pod), snapshot, _descriptors(pod, snapshot)
        )
    except Exception:  # noqa: BLE001 - out of memory, for example; the monitor works awake as well
        pod.loop.idle_timeout = hibernation.LONGEST


def is_quiet(pod: Supervisor) -> bool:
    """Return whether nothing is pending: apps are running or have exited, no client waits."""
    if not pod.ready or pod.halting or pod.failure is not None or pod.control is None:
        return False
    running = {app.pid for app in pod.apps.values() if app.pid}
    return (
        not pod.control.connections
        and all(copy.is_empty for copy in pod.copies.values())
        and all(app.is_quiet for app in pod.apps.values())
        and set(pod.loop.children()) == running | pod.processes.pids
    )


def take_snapshot(pod: Supervisor) -> Snapshot:
    """Return the snapshot of a quiet monitor: state that is not in the pod's files.

    A later version of this program may restore it, so the members must not change their meaning.
    """
    assert pod.control is not None
    return {
        "runtime": pod.context.runtime.program,
        "cgroups": pod.context.cgroups,
        "namespaces": pod.context.namespaces,
        "processes": pod.processes.snapshot(),
        "control": pod.control.descriptor,
        "apps": [app.snapshot() for app in pod.apps.values()],
        "copies": {name: copy.snapshot() for name, copy in pod.copies.items()},
        "idle_timeout": pod.loop.idle_timeout,
    }


def _descriptors(pod: Supervisor, snapshot: Snapshot) -> list[int]:
    """Return the descriptors that must survive execve(2): those in ``snapshot``, and the lock."""
    processes = snapshot["processes"]
    found = {
        pod.lock,
        snapshot["control"],
        *(processes[name] for name in pod.processes.DESCRIPTORS),
    }
    for app in snapshot["apps"]:
        if "pid" in app:
            streams = app["streams"]
            found |= {app["log"], streams["input"], streams["terminal"]}
            found |= {fd for fd, _ in streams["readers"]}
    return sorted(found - {-1})


def _command(pod: Supervisor) -> list[str]:
    program = __file__.rpartition("/supervisor/")[0] + "/cli/__main__.py"
    options = [
        f"--dir={pod.config['directory']}",
        *(["--debug"] if pod.config.get("debug") else []),
    ]
    return [program, *options, "monitor", pod.uuid, "--lock-fd", str(pod.lock)]


def restore(pod: Supervisor, snapshot: Snapshot) -> None:
    """Restore a newly created ``pod`` from a snapshot.  Raises RuntimeFailure."""
    hibernation.take_signals(snapshot)
    pod.loop.reap_soon()  # children that exited during hibernation
    pod.processes.restore(snapshot["processes"])
    pod.context.namespaces = snapshot["namespaces"]
    if snapshot["copies"]:
        pod.stay_in_foreground()
    for name, copy in pod.copies.items():
        copy.restore(snapshot["copies"][name])
    for app in snapshot["apps"]:
        pod.add_app(app["entry"], app)
    pod.control = ControlSocket(pod.loop, "ctl", Requests(pod).handle, snapshot["control"])
    pod.ready = True
    sleep_when_quiet(pod, hibernation.next_timeout(snapshot["idle_timeout"], snapshot["slept"]))
