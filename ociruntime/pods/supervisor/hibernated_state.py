"""A pod monitor's hibernation: when it may start, and how its snapshot is taken and restored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ociruntime.pods.loop.control_socket import ControlSocket
from ociruntime.pods.supervisor import hibernation
from ociruntime.pods.supervisor.requests import Requests

if TYPE_CHECKING:
    from ociruntime.pods.supervisor.supervise import Supervisor

Snapshot = dict[str, Any]


def hibernate_when_idle(pod: Supervisor, timeout: float = 0) -> None:
    """Make the monitor hibernate after ``timeout`` seconds without an event, 0 for the default."""
    # Never while a user is attached to the terminal, nor for kvm pods: the machine is large anyway,
    # and its state (a child with a result to be read) is not worth serialising.
    if pod.terminal is None and pod.context.can_hibernate:
        pod.loop.idle_timeout = timeout or hibernation.first_timeout()
        pod.loop.on_quiet = lambda: _hibernate(pod)


def _hibernate(pod: Supervisor) -> None:
    """Hibernate if nothing is pending; on an error, continue and try again a minute later."""
    if not is_quiet(pod):
        return
    title = f"ocipod monitor {pod.uuid} (idle)"
    try:
        snapshot = take_snapshot(pod)
        hibernation.hibernate(pod.loop, title, _command(pod), snapshot, _descriptors(pod, snapshot))
    except Exception:  # noqa: BLE001 - such as out of memory: the monitor works on
        pod.loop.idle_timeout = hibernation.LONGEST_TIMEOUT


def is_quiet(pod: Supervisor) -> bool:
    """Return whether the monitor may hibernate.

    It may if no client is connected, no output or request is pending, and no app is changing state.
    """
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
    """Return the state of an idle monitor that is not in the pod's files, as a JSON object.

    A later version of this program may restore it: the members must not change their meaning.
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
    descriptors = {
        pod.lock,
        snapshot["control"],
        *(processes[name] for name in pod.processes.DESCRIPTORS),
    }
    for app in snapshot["apps"]:
        if "pid" in app:
            streams = app["streams"]
            descriptors |= {app["log"], streams["input"], streams["terminal"]}
            descriptors |= {fd for fd, _ in streams["readers"]}
    return sorted(descriptors - {-1})


def _command(pod: Supervisor) -> list[str]:
    """Return the Python file and arguments of ``ocipod monitor``, which resumes the monitor."""
    program = __file__.rpartition("/supervisor/")[0] + "/cli/__main__.py"
    options = [
        f"--dir={pod.config['directory']}",
        *(["--debug"] if pod.config.get("debug") else []),
    ]
    return [program, *options, "monitor", pod.uuid, "--lock-fd", str(pod.lock)]


def restore(pod: Supervisor, snapshot: Snapshot) -> None:
    """Set the state of the new supervisor ``pod`` from ``snapshot``.  Raises RuntimeFailure."""
    hibernation.restore_signal_mask(snapshot)
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
    hibernate_when_idle(pod, hibernation.next_timeout(snapshot["idle_timeout"], snapshot["slept"]))
