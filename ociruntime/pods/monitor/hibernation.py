"""Hibernation: an idle monitor becomes a small C program until the next event.

The monitor writes its snapshot to a memory file and executes ``csrc/hibernation`` (the stub), which
keeps the monitor's pid, children and descriptors.  At the first event, the stub executes the
interpreter again, which restores the snapshot.  Signals stay blocked from before the first
execve(2) until after the second, so that no signal is lost or kills the process.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

from ociruntime.base import json_files
from ociruntime.base.errors import HostError
from ociruntime.base.fault_injection import fault, variable_for_tests
from ociruntime.base.files import write_all
from ociruntime.base.host_programs import own_launcher
from ociruntime.pods.loop.control_socket import ControlSocket
from ociruntime.pods.loop.event_loop import Loop
from ociruntime.pods.monitor.control_requests import Requests

Snapshot = dict[str, Any]


PROGRAM = __file__.rpartition("/")[0] + "/_hibernation"
VARIABLE = "OCIPOD_IDLE_TIMEOUT"  # for tests: idle timeout in seconds, instead of the following
SHORTEST_TIMEOUT = 5.0  # seconds without an event before the first hibernation
LONGEST_TIMEOUT = 60.0  # seconds
LONG_HIBERNATION = 60.0  # seconds; after a shorter hibernation, the idle timeout doubles


def first_timeout() -> float:
    """Return how many seconds a monitor must be without an event before it first hibernates."""
    override = variable_for_tests(VARIABLE)
    return float(override) if override else SHORTEST_TIMEOUT


def next_timeout(before: float, slept: float) -> float:
    """Return how many seconds a monitor must be without an event before it hibernates again.

    ``before`` is the previous timeout, ``slept`` the duration of the last hibernation, both in
    seconds.
    """
    if variable_for_tests(VARIABLE):
        return before
    return SHORTEST_TIMEOUT if slept >= LONG_HIBERNATION else min(2 * before, LONGEST_TIMEOUT)


def hibernate(
    loop: Loop, title: str, command: list[str], snapshot: Snapshot, descriptors: list[int]
) -> None:
    """Replace this process with the hibernation stub, a small C program.

    Returns only if an event is pending.  At the next event, the stub executes ``command``, a Python
    file and its arguments, with the option ``--resume-fd N``; ``load_snapshot`` reads ``snapshot``
    from the descriptor N.  The stub keeps ``descriptors`` open.  ``title`` is the stub's name in
    ``ps``.  Raises HostError or OSError if this fails; the monitor can then continue.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        # A signal that arrived before the block has made the loop's wakeup pipe readable.
        if loop.is_quiet and not signal.sigpending():
            snapshot = {
                **snapshot,
                "kept": descriptors,
                "mask": sorted(before),
                "since": time.monotonic(),
            }
            _execute_stub(loop.descriptors(), title, command, snapshot)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _execute_stub(
    descriptors: list[int], title: str, command: list[str], snapshot: Snapshot
) -> None:
    """Write ``snapshot`` to a memory file, and replace this process with the hibernation stub.

    The stub waits for an event on one of ``descriptors``, and then executes ``command``, a Python
    file and its arguments.  ``title`` is the stub's name in ``ps``.  Raises HostError if the stub
    cannot be executed.
    """
    memory = -1
    try:
        for fd in snapshot["kept"]:
            os.set_inheritable(fd, True)
        with select.epoll() as watched:
            for fd in descriptors:
                watched.register(fd, select.EPOLLIN)
            memory = os.memfd_create("monitor", 0)
            write_all(memory, json_files.text_of({**snapshot, "watched": watched.fileno()}))
            os.set_inheritable(watched.fileno(), True)
            stub_argv = [title, str(watched.fileno()), command[0]]
            argv = [*stub_argv, *_resume_command(command), "--resume-fd", str(memory), ""]
            fault("monitor.before-sleep")
            os.execve(PROGRAM, argv, os.environ)
    except OSError as error:
        raise HostError(f'execute "{PROGRAM}"', error) from None
    finally:
        if memory >= 0:
            os.close(memory)
        for fd in snapshot["kept"]:
            os.set_inheritable(fd, False)


def _resume_command(command: list[str]) -> list[str]:
    """Return [path, *argv] of the program that the stub executes to run ``command``.

    The program is the launcher of ``ocipod``.  If the launcher is not installed, the program is the
    Python interpreter, with the interpreter options of this process.  The stub is
    ``csrc/hibernation/stub.c``.
    """
    if launcher := own_launcher("ocipod"):
        return [launcher, launcher, *command[1:]]
    interpreter = sys.orig_argv[: sys.orig_argv.index(sys.argv[0])]
    return [sys.executable, *interpreter, *command]


def load_snapshot(memory: int) -> Snapshot:
    """Read the snapshot of a hibernating monitor from the descriptor ``memory``, and close it.

    The result has the member "slept", the duration of the hibernation in seconds.  Signals remain
    blocked.  Raises HostError if the snapshot cannot be read, PodError if it is damaged.
    """
    try:
        os.lseek(memory, 0, 0)
        size = os.fstat(memory).st_size
        data = b""
        while len(data) < size:
            data += os.read(memory, size)
        os.close(memory)
    except OSError as error:
        raise HostError("resume the pod's monitor: read its snapshot", error) from None
    snapshot = json_files.parse(data, "the monitor's snapshot")
    os.close(snapshot["watched"])
    for fd in snapshot["kept"]:
        os.set_inheritable(fd, False)
    fault("monitor.after-sleep")
    snapshot["slept"] = time.monotonic() - snapshot["since"]
    return snapshot


def restore_signal_mask(snapshot: Snapshot) -> None:
    """Restore the signal mask in ``snapshot``; call it after installing signal handlers."""
    signal.pthread_sigmask(signal.SIG_SETMASK, snapshot["mask"])


if TYPE_CHECKING:
    from ociruntime.pods.monitor.monitor import Monitor


def hibernate_when_idle(monitor: Monitor, timeout: float = 0) -> None:
    """Make ``monitor`` hibernate after ``timeout`` seconds without an event.

    If ``timeout`` is 0, ``first_timeout`` is used.  The monitors of kvm pods never hibernate, nor
    do monitors that are connected to a terminal.
    """
    # A virtual machine needs much more memory than its monitor, and the state of the child process
    # that runs it (its result is still to be read) is not worth serialising.
    if monitor.terminal is None and monitor.context.can_hibernate:
        monitor.loop.idle_timeout = timeout or first_timeout()
        monitor.loop.on_quiet = lambda: _hibernate(monitor)


def _hibernate(monitor: Monitor) -> None:
    """Hibernate if nothing is pending; if this fails, retry after a minute without an event."""
    if not is_quiet(monitor):
        return
    title = f"ocipod monitor {monitor.uuid} (idle)"
    try:
        snapshot = take_snapshot(monitor)
        hibernate(monitor.loop, title, _command(monitor), snapshot, _descriptors(monitor, snapshot))
    except Exception:  # noqa: BLE001 - such as out of memory: the monitor works on
        monitor.loop.idle_timeout = LONGEST_TIMEOUT


def is_quiet(monitor: Monitor) -> bool:
    """Return whether ``monitor`` may hibernate.

    It may if no client is connected, no output or request is pending, and no app is starting or
    stopping.
    """
    if (
        not monitor.ready
        or monitor.halting
        or monitor.failure is not None
        or monitor.control is None
    ):
        return False
    running = {app.pid for app in monitor.apps.values() if app.pid}
    return (
        not monitor.control.connections
        and all(copy.is_empty for copy in monitor.copies.values())
        and all(app.is_quiet for app in monitor.apps.values())
        and set(monitor.loop.children()) == running | monitor.processes.pids
    )


def take_snapshot(monitor: Monitor) -> Snapshot:
    """Return, as a JSON object, the part of an idle monitor's state that is not in the pod's files.

    A later version of ocipod may restore the snapshot, so the meaning of its members must not
    change.
    """
    assert monitor.control is not None
    return {
        "runtime": monitor.context.runtime.program,
        "cgroups": monitor.context.cgroups,
        "namespaces": monitor.context.namespaces,
        "processes": monitor.processes.snapshot(),
        "control": monitor.control.descriptor,
        "apps": [app.snapshot() for app in monitor.apps.values()],
        "copies": {name: copy.snapshot() for name, copy in monitor.copies.items()},
        "idle_timeout": monitor.loop.idle_timeout,
    }


def _descriptors(monitor: Monitor, snapshot: Snapshot) -> list[int]:
    """Return the descriptors that must stay open across execve(2).

    These are the descriptors in ``snapshot``, and the descriptor that holds the pod's lock.
    """
    processes = snapshot["processes"]
    descriptors = {
        monitor.lock,
        snapshot["control"],
        *(processes[name] for name in monitor.processes.DESCRIPTORS),
    }
    for app in snapshot["apps"]:
        if "pid" in app:
            streams = app["streams"]
            descriptors |= {app["log"], streams["input"], streams["terminal"]}
            descriptors |= {fd for fd, _ in streams["readers"]}
    return sorted(descriptors - {-1})


def _command(monitor: Monitor) -> list[str]:
    """Return the Python file and arguments of ``ocipod monitor``, which resumes the monitor."""
    program = __file__.rpartition("/monitor/")[0] + "/cli/__main__.py"
    options = [
        f"--dir={monitor.config['directory']}",
        *(["--debug"] if monitor.config.get("debug") else []),
    ]
    return [program, *options, "monitor", monitor.uuid, "--lock-fd", str(monitor.lock)]


def restore(monitor: Monitor, snapshot: Snapshot) -> None:
    """Restore the state of ``monitor`` after hibernation.

    ``snapshot`` is the result of ``take_snapshot``.  Raises RuntimeFailure if the state cannot be
    restored.
    """
    restore_signal_mask(snapshot)
    monitor.loop.reap_soon()  # children that exited during hibernation
    monitor.processes.restore(snapshot["processes"])
    monitor.context.namespaces = snapshot["namespaces"]
    if snapshot["copies"]:
        monitor.stay_in_foreground()
    for name, copy in monitor.copies.items():
        copy.restore(snapshot["copies"][name])
    for app in snapshot["apps"]:
        monitor.add_app(app["entry"], app)
    monitor.control = ControlSocket(
        monitor.loop, "ctl", Requests(monitor).handle, snapshot["control"]
    )
    monitor.ready = True
    hibernate_when_idle(monitor, next_timeout(snapshot["idle_timeout"], snapshot["slept"]))
