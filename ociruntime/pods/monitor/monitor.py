"""The main object of a pod's monitor, which runs the pod from start to cleanup."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from ociruntime.base import json_files
from ociruntime.base.errors import HostError, PodError, RuntimeFailure, unhandled
from ociruntime.base.fault_injection import fault
from ociruntime.base.files import remove_file
from ociruntime.base.process import become_subreaper, start_time
from ociruntime.base.trusted_directories import make_directory
from ociruntime.pods.bundle.etc_files import write_etc_files
from ociruntime.pods.bundle.pod_context import PodContext, apps_of, read_manifest
from ociruntime.pods.bundle.pod_network import (
    bring_up,
    is_host_network,
    joins_networks,
    take_down,
)
from ociruntime.pods.bundle.runtime_calls import OWN_FAILURE, RuntimeCalls, find_runtime
from ociruntime.pods.loop import worker
from ociruntime.pods.loop.control_socket import ControlSocket
from ociruntime.pods.loop.event_loop import Loop
from ociruntime.pods.loop.worker import Outcome
from ociruntime.pods.monitor.app_run import AppRun
from ociruntime.pods.monitor.control_requests import Requests
from ociruntime.pods.monitor.foreground_output import ForegroundCopy, LocalTerminal
from ociruntime.pods.monitor.pod_processes import PodProcesses
from ociruntime.pods.store import pod_cgroup

GRACE = 10.0  # seconds between the stop signal and SIGKILL
FAILURE_LIMIT = 5.0  # seconds for apps to exit after an error of the monitor
FLUSH_LIMIT = 5.0  # seconds for clients and the foreground to read the last output
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


class Monitor:
    """The monitor of the pod whose directory is the working directory.

    ``report_start`` is called once: with "" when the pod is ready, or with the error message if the
    pod could not be started.
    """

    def __init__(
        self,
        path: str,
        uuid: str,
        lock: int,
        warn: Callable[[str], None],
        snapshot: dict[str, Any] | None = None,
    ) -> None:
        """Prepare to run the pod ``uuid``, or with ``snapshot`` to resume it after hibernation.

        ``path`` is the pod's directory, ``lock`` the descriptor that holds its lock; ``warn`` is
        called with warnings for the user.  Raises RuntimeFailure if the pod's settings cannot be
        read or the OCI runtime is not found.
        """
        self.path = path
        self.uuid = uuid
        self.lock = lock
        self._warn = warn
        self.config: dict[str, Any] = json_files.read("runtime-config")
        self.loop = Loop()
        self.loop.on_signal = self._handle_signal
        self._enter: Callable[[], None] = self._set_up
        if snapshot is None:
            program = find_runtime(str(self.config.get("runtime") or "ociruntime"))
            cgroups = pod_cgroup.directories(pod_cgroup.hierarchies(), f"ocipod-{uuid}")
        else:
            program, cgroups = snapshot["runtime"], snapshot["cgroups"]
            self._enter = lambda: self._restore(snapshot)
        runtime = RuntimeCalls(program, uuid, bool(self.config.get("debug")))
        self.context = _context_class(self.config)(self.loop, path, runtime)
        self.context.private = (lock,)
        self.context.warn = self.warn
        self.context.cgroups = cgroups
        self.mutable = bool(self.config.get("mutable"))
        self.keeps_on_failure = self.mutable and self.config.get("on_failure") != "halt"
        self.ends_with_apps = not self.mutable or self.config.get("on_exit") == "halt"
        self.processes = PodProcesses(self.loop, lock, self.context.cgroups)
        self.processes.on_init_exit = self._handle_init_exit
        self.apps: dict[str, AppRun] = {}
        self.ready = False
        self.halting = ""
        self.code = 0
        self.reason = ""
        self.failure: RuntimeFailure | None = None
        self.copies: dict[str, ForegroundCopy] = {}
        self.terminal: LocalTerminal | None = None
        self.control: ControlSocket | None = None
        self.report_start: Callable[[str], None] | None = None
        self._winding_down = False
        self._starting = 0
        self._network_running = False  # whether a worker is setting up the pod's networks

    def run(self) -> int:
        """Run the pod until it has ended and is cleaned up; return its exit code.

        Raises RuntimeFailure, after the cleanup, if an error prevented the start or ended the pod.
        """
        self.attempt(self._enter)
        while not self.loop.stopped:
            self.attempt(self.loop.run)
        if self.terminal is not None:
            self.terminal.close()
        if self.control is not None:
            self.control.disconnect()
        self.loop.close()
        if self.failure is not None:
            self._report_start(str(self.failure))
            raise self.failure
        return self.code

    def attempt(self, step: Callable[[], None]) -> None:
        """Call ``step``; if it raises an exception, record the error and end the pod."""
        try:
            step()
        except RuntimeFailure as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - end the pod on any error
            self._fail(unhandled(f"run pod {self.uuid}", error))

    def warn(self, text: str) -> None:
        """Show the warning ``text`` to the user; ignore an OSError, such as a full disk."""
        try:
            self._warn(text)
        except OSError:
            pass

    def _set_up(self) -> None:
        become_subreaper()  # execve(2) preserves it, for a monitor that has hibernated
        kinds = _namespace_kinds(self.config)
        mapped = self.config.get("private_users")
        id_map = f"0 {mapped['shift']} {mapped['count']}\n" if mapped else ""
        remove_file("exit")
        make_directory(self.context.runtime.root, 0o700, "state directory of the runtime")
        self.processes.start(kinds, str(self.config.get("hostname") or ""), id_map)
        manifest = read_manifest()
        for warning in self.context.set_up(self.config, manifest):
            self.warn(warning)
        joined = tuple(k for k in kinds if k not in _init_only(self.config))
        self.context.namespaces = self.processes.namespaces(joined)
        fault("monitor.before-record")
        json_files.replace("monitor.json", self._identity(), lasting=False)
        for entry in apps_of(manifest):
            self.add_app(entry)
        remove_file("ctl")
        self.control = ControlSocket(self.loop, "ctl", Requests(self).handle)
        if not joins_networks(self.config):
            host = is_host_network(self.config)
            write_etc_files(self.path, self.config, {}, on_host_network=host)
            self._start_apps()
            return
        self._network_running = True
        namespace = self.context.namespaces["network"]
        worker.start(
            self.loop,
            self.context.private,
            f"set up the networks of pod {self.uuid}",
            lambda: bring_up(self.path, self.uuid, self.config, namespace),
            self._network_up,
        )

    def _restore(self, snapshot: dict[str, Any]) -> None:
        from ociruntime.pods.monitor.hibernation import restore

        restore(self, snapshot)

    def _identity(self) -> dict[str, Any]:
        pid = os.getpid()
        return {
            "pid": pid,
            "start_time": start_time(pid),
            "init_pid": self.processes.pid,
            "init_start_time": self.processes.started(),
            "started": json_files.now(),
        }

    def add_app(self, entry: dict[str, Any], snapshot: dict[str, Any] | None = None) -> AppRun:
        """Add an app to the pod, without starting it, and return it.

        ``entry`` is the app's entry in the pod's manifest.  When the monitor resumes after
        hibernation, ``snapshot`` is the app's saved state, and the app may be running.
        Raises HostError if the app's record or log cannot be written.
        """
        app = AppRun(self.context, entry, snapshot)
        app.on_end = self._app_ended
        app.on_output = self._copy
        if self.terminal is not None:
            app.on_terminal = self.terminal.connect
        self.apps[app.name] = app
        return app

    def _network_up(self, outcome: Outcome) -> None:
        self._network_running = False
        outcome.check()
        self._start_apps()

    def _start_apps(self) -> None:
        """Start the apps of an immutable pod; make a sandbox ready without starting its apps.

        Called once the pod is connected to its networks.
        """
        if self.halting:
            self.end_if_done()
            return
        if self.mutable:
            self._become_ready()
            return
        self.context.begin()
        self._starting = len(self.apps)
        for app in list(self.apps.values()):
            app.start(self._app_started)
        if not self.apps:
            raise PodError(f"start pod {self.uuid}: it has no apps")

    def _app_started(self, error: RuntimeFailure | None) -> None:
        self._starting -= 1
        if error is not None:
            self._report_start(str(error))
        elif self._starting == 0 and not self.halting:
            self._become_ready()

    def stay_in_foreground(self) -> None:
        """Copy the apps' output to stdout and stderr, or with --interactive to the terminal."""
        if self.config.get("interactive") and os.isatty(0):
            self.terminal = LocalTerminal(self.loop)
            self.context.has_terminal = True
        else:
            self.copies["stdout"] = ForegroundCopy(self.loop, 1)
            self.copies["stderr"] = ForegroundCopy(self.loop, 2)

    def _become_ready(self) -> None:
        remove_file("ready")
        os.symlink("running", "ready")
        self.ready = True
        self._report_start("")
        from ociruntime.pods.monitor.hibernation import hibernate_when_idle

        hibernate_when_idle(self)

    def _report_start(self, error: str) -> None:
        report, self.report_start = self.report_start, None
        if report is not None:
            report(error)

    def _copy(self, app: AppRun, stream: str, data: bytes) -> None:
        copy = self.copies.get(stream)
        if self.terminal is not None:
            self.terminal.write(data)
        elif copy is not None:
            copy.write(f"{app.label}: ", data)

    def _app_ended(self, app: AppRun) -> None:
        code = app.record["exit_code"]
        failed = bool(code) and app.record["stopped_by"] is None
        if failed and not self.keeps_on_failure and not self.code:
            self.code = code
            self.reason = f"app {app.name} ended with {code}"
            if self.halting != "pod stop":
                self.halt("halt")
        if (
            self.mutable
            and self.ends_with_apps
            and not self.halting
            and not self._has_active_apps()
        ):
            self.halt("halt")
        self.end_if_done()

    def _has_active_apps(self) -> bool:
        return any(app.is_active for app in self.apps.values())

    def end_if_done(self) -> None:
        """End the pod if no app is active and none will be started.

        An immutable pod ends when all of its apps have been started and have exited.  A sandbox
        ends only after ``halt`` was called.
        """
        if self._network_running or self._has_active_apps():
            return
        if self.halting or (not self.mutable and self._starting <= 0):
            self._wind_down()

    def halt(self, by: str, seconds: float = GRACE) -> None:
        """Stop all apps, the last added first, and then end the pod.

        ``seconds`` is the time between an app's stop signal and SIGKILL.  ``by`` ("halt" or "pod
        stop") is stored in the apps' records.
        """
        first = not self.halting
        self.halting = self.halting or by
        self.ready = False
        remove_file("ready")
        for app in reversed(list(self.apps.values())):
            app.abandon()
            app.halt(by, seconds, _nothing)
        if first:
            self.end_if_done()

    def _fail(self, error: RuntimeFailure) -> None:
        """Kill all apps and end the pod because of ``error``; ``run`` raises the error later."""
        if self.failure is None:
            self.failure = error
            self.code = OWN_FAILURE
            self.reason = str(error)
            # Wait only for a limited time: the failed callback may be the one that stops an app.
            self.loop.after(FAILURE_LIMIT, self._wind_down)
        if self._winding_down:
            self.loop.stopped = True
            return
        self.halting = self.halting or "halt"
        for app in self.apps.values():
            app.abandon()
            app.kill()
        self.end_if_done()

    def _handle_init_exit(self) -> None:
        """Handle the exit of the pod's init: end the pod, unless the pod is already ending.

        When the init exits, the kernel kills all processes in its PID namespace.
        """
        if not self._winding_down:
            self.code = self.code or 137
            self.reason = self.reason or "the pod's init was killed"
            self.halt("halt", 0)
            self.end_if_done()

    def _handle_signal(self, number: int) -> None:
        if self.terminal is not None:
            self.terminal.signal(number)
        if number in ENDING:
            self.halt("pod stop", 0 if self.halting else GRACE)

    def _wind_down(self) -> None:
        if self._winding_down:
            return
        self._winding_down = True
        self.loop.idle_timeout = None  # do not hibernate during the cleanup
        if self.control is not None:
            self.control.close()
        self.context.end(self._leave_networks)

    def _leave_networks(self) -> None:
        if not joins_networks(self.config):
            self._end_processes()
            return
        worker.start(
            self.loop,
            self.context.private,
            f"take down the networks of pod {self.uuid}",
            lambda: take_down(self.path),
            self._network_down,
        )

    def _network_down(self, outcome: Outcome) -> None:
        for problem in outcome.value.get("problems") or [outcome.problem]:
            if problem:
                self.context.is_clean = False
                self.warn(problem)
        self._end_processes()

    def _end_processes(self) -> None:
        self.processes.on_end = self._processes_ended
        if self.processes.is_over:
            self._processes_ended()
        else:
            self.processes.end()

    def _processes_ended(self) -> None:
        for cgroup in pod_cgroup.remove(self.context.cgroups):
            self.context.is_clean = False
            self.warn(f'clean up pod {self.uuid}: the cgroup "{cgroup}" could not be removed')
        for app in self.apps.values():
            try:
                app.save_late()
            except HostError as error:
                self.warn(str(error))
        clean = self.context.is_clean and self.failure is None
        ended = {"code": self.code, "reason": self.reason, "clean": clean}
        json_files.replace("exit", ended)
        self.loop.after(FLUSH_LIMIT, self._stop)
        self._stop_when_flushed()

    def _stop_when_flushed(self) -> None:
        outputs = [self.terminal] if self.terminal is not None else list(self.copies.values())
        attached = self.control is not None and self.control.connections
        if not attached and all(output.is_empty for output in outputs):
            self._stop()
        else:
            self.loop.after(0.02, self._stop_when_flushed)

    def _stop(self) -> None:
        self.loop.stopped = True


def _namespace_kinds(config: dict[str, Any]) -> tuple[str, ...]:
    """Return the OCI types of the namespaces to create for a pod.

    ``config`` is the pod's runtime-config.  Returns () for a pod of the flavour fly, which has no
    namespaces.
    """
    if config.get("flavor") == "fly":
        return ()
    kinds = ["pid", "mount"]
    if config.get("uts") != "parent":
        kinds.append("uts")
    if config.get("ipc") != "parent":
        kinds.append("ipc")
    if not is_host_network(config):
        kinds.append("network")
    if config.get("private_users"):
        kinds.append("user")
    return tuple(kinds)


def _init_only(config: dict[str, Any]) -> tuple[str, ...]:
    """Return the OCI types of the namespaces that the pod's init does not share with the apps.

    ``config`` is the pod's runtime-config.
    """
    return ("mount", "pid") if config.get("pid") == "parent" else ("mount",)


def _context_class(config: dict[str, Any]) -> type[PodContext]:
    if config.get("flavor") != "kvm":
        return PodContext
    from ociruntime.pods.kvm.machine import Machine

    return Machine


def _nothing() -> None:
    pass
