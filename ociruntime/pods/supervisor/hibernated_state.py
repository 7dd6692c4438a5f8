"""The hibernation of a pod's monitor: when it begins, and how the state is saved and restored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ociruntime.pods.loop.control_socket import ControlSocket
from ociruntime.pods.supervisor import hibernation
from ociruntime.pods.supervisor.control_requests import Requests

if TYPE_CHECKING:
    from ociruntime.pods.supervisor.supervise import Supervisor

Snapshot = dict[str, Any]


def hibernate_when_idle(pod: Supervisor, timeout: float = 0) -> None:
    """Make the monitor of ``pod`` hibernate after ``timeout`` seconds without an event.

    0 means the default timeout.  A monitor that is connected to a terminal, or that of a kvm pod,
    never hibernates.
    """
    # Never while a user is attached to the terminal, nor for kvm pods: the machine is large anyway,
    # and its state (a child with a result to be read) is not worth serialising.
    if pod.terminal is None and pod.context.can_hibernate:
        pod.loop.idle_timeout = timeout or hibernation.first_timeout()
        pod.loop.on_quiet = lambda: _hibernate(pod)


def _hibernate(pod: Supervisor) -> None:
    """Hibernate if nothing is pending in the monitor; after an error, try again a minute later."""
    if not is_quiet(pod):
        return
    title = f"ocipod monitor {pod.uuid} (idle)"
    try:
        snapshot = take_snapshot(pod)
        hibernation.hibernate(pod.loop, title, _command(pod), snapshot, _descriptors(pod, snapshot))
    except Exception:  # noqa: BLE001 - such as out of memory: the monitor works on
        pod.loop.idle_timeout = hibernation.LONGEST_TIMEOUT


def is_quiet(pod: Supervisor) -> bool:
    """Return whether the monitor of ``pod`` may hibernate.

    It may if no client is connected, no output or request is pending, and no app is starting or
    stopping.
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
    """Return the state of an idle monitor, as far as it is not in the pod's files.

    It is a JSON object, which a later version of this program may restore: the meaning of its
    members must not change.
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
    """Return the descriptors that must stay open across execve(2).

    These are the descriptors in ``snapshot``, and the one that holds the pod's lock.
    """
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
    """Return the command that resumes the monitor, ``ocipod monitor``.

    Its first element is the Python file to execute, followed by arguments.
    """
    program = __file__.rpartition("/supervisor/")[0] + "/cli/__main__.py"
    options = [
        f"--dir={pod.config['directory']}",
        *(["--debug"] if pod.config.get("debug") else []),
    ]
    return [program, *options, "monitor", pod.uuid, "--lock-fd", str(pod.lock)]


def restore(pod: Supervisor, snapshot: Snapshot) -> None:
    """Restore the state of a monitor after hibernation; ``snapshot`` is from ``take_snapshot``.

    ``pod`` is its new supervisor.  Raises RuntimeFailure.
    """
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
