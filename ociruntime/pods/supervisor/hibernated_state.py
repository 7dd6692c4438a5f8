"""Hibernation of a pod's monitor: when to hibernate, and the snapshot to restore from."""

from __future__ import annotations

from ociruntime.pods.loop.control_socket import ControlSocket
from ociruntime.pods.supervisor import hibernation as sleep
from ociruntime.pods.supervisor.requests import Requests

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ociruntime.pods.supervisor.supervise import Supervisor

    Frozen = dict[str, Any]


def sleep_when_quiet(pod: Supervisor, patience: float = 0) -> None:
    """Hibernate from now on after ``patience`` seconds without an event, 0 for the default."""
    # Never while a user is attached to the terminal, nor for kvm pods: the machine is large anyway,
    # and its state (a child with a result to be read) is not worth serialising.
    if pod.terminal is None and pod.around.may_sleep:
        pod.loop.patience = patience or sleep.first_patience()
        pod.loop.on_quiet = lambda: _sleep(pod)


def _sleep(pod: Supervisor) -> None:
    if not is_quiet(pod):
        return
    title = f"ocipod monitor {pod.uuid} (idle)"
    try:
        frozen = freeze(pod)
        sleep.try_to_sleep(pod.loop, title, _command(pod), frozen, _descriptors(pod, frozen))
    except Exception:  # noqa: BLE001 - out of memory, for example; the monitor works awake as well
        pod.loop.patience = sleep.LONGEST


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


def freeze(pod: Supervisor) -> Frozen:
    """Return the snapshot of a quiet monitor: state that is not in the pod's files.

    A later version of this program may restore it, so the members must not change their meaning.
    """
    assert pod.control is not None
    return {
        "runtime": pod.around.runtime.program,
        "cgroups": pod.around.cgroups,
        "namespaces": pod.around.namespaces,
        "processes": pod.processes.frozen(),
        "control": pod.control.descriptor,
        "apps": [app.frozen() for app in pod.apps.values()],
        "copies": {name: copy.frozen() for name, copy in pod.copies.items()},
        "patience": pod.loop.patience,
    }


def _descriptors(pod: Supervisor, frozen: Frozen) -> list[int]:
    """Return the descriptors that must survive execve(2): those in ``frozen``, and the lock."""
    processes = frozen["processes"]
    found = {pod.lock, frozen["control"], *(processes[name] for name in pod.processes.DESCRIPTORS)}
    for app in frozen["apps"]:
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


def take_up(pod: Supervisor, frozen: Frozen) -> None:
    """Restore a newly created ``pod`` from a snapshot.  Raises RuntimeFailure."""
    sleep.take_signals(frozen)
    pod.loop.look_for_ends()  # children that exited during hibernation
    pod.processes.take_up(frozen["processes"])
    pod.around.namespaces = frozen["namespaces"]
    if frozen["copies"]:
        pod.stay_in_foreground()
    for name, copy in pod.copies.items():
        copy.take_up(frozen["copies"][name])
    for app in frozen["apps"]:
        pod.add_app(app["entry"], app)
    pod.control = ControlSocket(pod.loop, "ctl", Requests(pod).handle, frozen["control"])
    pod.ready = True
    sleep_when_quiet(pod, sleep.next_patience(frozen["patience"], frozen["slept"]))
