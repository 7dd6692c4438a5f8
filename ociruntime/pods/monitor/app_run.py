"""Run an app in its pod's monitor: start it, stop it, record its state, and remove it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from ociruntime.base import json_files
from ociruntime.base.errors import PodError, RuntimeFailure, UsageError
from ociruntime.base.files import read_file
from ociruntime.base.linux import SIGKILL
from ociruntime.commandline.signal_names import signal_number
from ociruntime.pods.bundle.pod_context import PodContext
from ociruntime.pods.bundle.private_mount_namespace import unmount
from ociruntime.pods.bundle.runtime_calls import OWN_FAILURE, failure, failure_code
from ociruntime.pods.loop import worker
from ociruntime.pods.loop.event_loop import Timer
from ociruntime.pods.loop.worker import Outcome
from ociruntime.pods.monitor.app_record import (
    RecordFile,
    new_record,
    record_exit,
    record_start,
)
from ociruntime.pods.monitor.app_streams import AppStreams, ConsoleListener
from ociruntime.pods.monitor.log_writer import AppLog
from ociruntime.pods.store import pod_cgroup

Done = Callable[[RuntimeFailure | None], None]
App = dict[str, Any]
NOT_STARTED = "not started"  # the reason of an app that was stopped before its program ran


class AppRun:
    """An app in its pod's monitor: its container, streams, log and record (state.json).

    Requests to start, stop and remove the app are carried out one at a time, in the order of
    arrival.  ``busy`` is True from the start of the app until its container is deleted, and while
    the app is being removed.
    """

    __slots__ = (
        *(
            "_cancelled",
            "_failure",
            "_file",
            "_kill_timer",
            "_log",
            "_program",
            "_queue",
            "_start_done",
        ),
        *("_starting", "_status", "_stop_done", "_stop_signal", "context", "busy", "kinds"),
        *("label", "name"),
        *("on_end", "on_output", "on_streams", "on_terminal", "pid", "record", "streams"),
        *("terminal", "watchers"),
    )

    def __init__(self, context: PodContext, entry: App, snapshot: App | None = None) -> None:
        """Create an app that is not started yet; ``entry`` is its entry in the pod's manifest.

        When the monitor resumes after hibernation, ``snapshot`` is the state that the method
        ``snapshot`` returned before; an app that was running then is still running.  Raises
        HostError if the app's record or log cannot be written.
        """
        self.context = context
        self.name: str = entry["name"]
        app = entry.get("app") or {}
        self.kinds: dict[str, str] = app.get("streams") or {}
        self._program = (app.get("exec") or [""])[0]
        self._stop_signal = stop_signal(str(app.get("stopSignal") or "SIGTERM"))
        self.terminal = "tty" in self.kinds.values() or (
            self.kinds.get("stdin") == "interactive" and context.has_terminal
        )
        self.label = self.name  # prefix of the app's output lines in the foreground
        self.busy = False
        self.pid = 0
        self._status: int | None = None  # wait status of the app's process until it is recorded
        self._failure: RuntimeFailure | None = None
        self._cancelled = False
        self._starting = False
        self._queue: list[Callable[[], None]] = []
        self._start_done: Done = _nothing
        self._stop_done: list[Callable[[], None]] = []
        self._kill_timer: Timer | None = None
        self._log: AppLog | None = None
        self.streams: AppStreams | None = None
        self.watchers: list[Callable[[int], None]] = []  # called with the exit code
        self.on_streams: list[Callable[[AppStreams], None]] = []  # called once, at the next start
        self.on_output: Callable[[AppRun, str, bytes], None] = _no_output
        self.on_terminal: Callable[[AppStreams], None] | None = None
        self.on_end: Callable[[AppRun], None] = _no_end
        self.record: dict[str, Any] = snapshot["record"] if snapshot else new_record()
        self._file = RecordFile(context.loop, self.directory, self.record)
        if snapshot is None:
            self._file.save()
        elif "pid" in snapshot:
            self._restore(snapshot)

    @property
    def directory(self) -> str:
        """The path of the app's directory, relative to the pod's directory."""
        return f"apps/{self.name}"

    @property
    def is_active(self) -> bool:
        """Return whether the app is running or being removed, or its container still exists."""
        return self.busy

    def start(self, done: Done) -> None:
        """Create and start the app's container, after all earlier requests for the app.

        Calls ``done(None)`` once the container is running, or ``done(error)`` if that fails.
        """
        self._enqueue(lambda: self._start(done))

    def stop(self, by: str, seconds: float, done: Callable[[], None]) -> None:
        """Stop the app, after all earlier requests for it.

        Calls ``done`` once the app has exited and its container is deleted.  ``seconds`` is the
        time between the stop signal and SIGKILL.  ``by`` is "stop", "halt" or "pod stop", and is
        stored in the app's record.
        """
        if self._cancelled and not self._queue:
            self.halt(by, seconds, done)  # already stopping: the new timeout may be shorter
        else:
            self._enqueue(lambda: self.halt(by, seconds, done))

    def remove(self, seconds: float, done: Done) -> None:
        """Stop the app and unmount its root filesystem, after all earlier requests for the app.

        The files in the app's directory remain.  ``seconds`` is the time between the stop signal
        and SIGKILL.  Calls ``done(None)``, or ``done(error)`` if unmounting fails.
        """
        self._enqueue(lambda: self._remove(seconds, done))

    def save_late(self) -> None:
        """Write the app's record if an earlier write failed; raise HostError if it fails again."""
        self._file.save_late()

    def abandon(self) -> None:
        """Drop the queued requests for the app; called when the pod ends."""
        self._queue.clear()

    def _enqueue(self, task: Callable[[], None]) -> None:
        if self._queue or not self._is_settled():
            self._queue.append(task)
        else:
            task()

    def _is_settled(self) -> bool:
        """Return whether the app is running or fully stopped, neither starting nor stopping."""
        return not self.busy or self.record["state"] == "running"

    def _run_queue(self) -> None:
        while self._queue and self._is_settled():
            self._queue.pop(0)()

    def _start(self, done: Done) -> None:
        if self.busy or self.record["state"] == "deleting":
            message = f'start app "{self.name}" of pod {self.context.runtime.uuid}'
            done(None if self.busy else PodError(f"{message}: the app has been removed"))
            return
        try:
            self._create(done)
        except RuntimeFailure as error:
            self._start_done = done
            self._start_failed(error)

    def _create(self, done: Done) -> None:
        self.busy = True
        self._cancelled = False
        self._start_done = done
        self._status = self._failure = None
        self.label = self.name
        record_start(self.record)
        self._file.save_start()
        context = self.context
        self.streams = streams = self._connect()
        streams.make(self.kinds, self.terminal)
        console = f"{self.directory}/bundle/console"
        listener = ConsoleListener(console) if self.terminal else None
        worker.start(
            context.loop,
            context.private,
            f'create the container of app "{self.name}"',
            lambda: context.create_container(self.name, streams.app_ends, self.terminal),
            lambda outcome: self._created(outcome, listener),
        )

    def _connect(self, log: int = -1) -> AppStreams:
        """Return new streams for the app, whose output is logged and passed to ``on_output``.

        ``log`` is the descriptor of the log file, or -1 to open it.
        """
        self._log = AppLog(f"logs/{self.name}.log", fd=log)
        streams = AppStreams(self.context.loop)
        streams.sinks.append(self._log.write)
        streams.sinks.append(lambda stream, data: self.on_output(self, stream, data))
        return streams

    def _created(self, outcome: Outcome, listener: ConsoleListener | None) -> None:
        assert self.streams is not None
        self.streams.close_app_ends()
        master = listener.take() if listener is not None else -1
        if outcome.status:
            if master >= 0:
                os.close(master)
            self._start_failed(self._error(outcome))
            return
        self._watch_process(int(read_file(f"{self.directory}/pid")))
        self.streams.read()
        if master >= 0:
            self.streams.use_terminal(master)
            if self.on_terminal is not None:
                self.on_terminal(self.streams)
        while self.on_streams:
            self.on_streams.pop(0)(self.streams)
        self.record["pid"] = self.pid
        if self._cancelled:
            os.kill(self.pid, SIGKILL)
            return
        context = self.context
        argv = ("start", context.runtime.container(self.name))
        worker.start(
            context.loop,
            context.private,
            f'start the container of app "{self.name}"',
            lambda: context.call_runtime(self.name, argv),
            self._started,
        )
        self._starting = True

    def _error(self, outcome: Outcome) -> PodError:
        """Return the error for ``outcome``, a failed attempt by the runtime to start the app."""
        return PodError(
            outcome.error
            or failure(
                self.context.runtime_log(self.name),
                f'start app "{self.name}": the OCI runtime exited with status {outcome.status} '
                "and logged no error",
                self._program,
            )
        )

    def _watch_process(self, pid: int) -> None:
        """Record ``pid`` as the app's process; the event loop calls ``_exited`` when it exits."""
        self.pid = pid
        self.label = f"{self.name}[{pid}]"
        self.context.loop.expect(pid, self._exited)

    def _started(self, outcome: Outcome) -> None:
        self._starting = False
        if outcome.status:
            self._failure = self._error(outcome)
            if self._status is None:
                os.kill(self.pid, SIGKILL)
            else:
                self._finish()
            return
        self.record.update(started=json_files.now(), state="running")
        if self._cancelled:
            self.record["state"] = "stopping"
            if self.pid:
                self._send(self._stop_signal)
        self._file.save_or_retry()
        done, self._start_done = self._start_done, _nothing
        done(None)
        if self._status is not None:
            self._finish()
        else:
            self._run_queue()

    def _exited(self, wait_status: int) -> None:
        self._status = wait_status
        self.pid = 0
        if not self._starting:
            self._finish()

    def _start_failed(self, error: RuntimeFailure) -> None:
        """Record ``error`` as the reason why the app's start failed, and delete its container."""
        self._failure = error
        self._finish()

    def _finish(self) -> None:
        """Record that the app has exited, and have the runtime delete its container."""
        if self._kill_timer is not None:
            self._kill_timer.cancel()
            self._kill_timer = None
        stopped_early = self._cancelled and self.record["state"] == "prepared"
        self.record.update(state="exited", finished=json_files.now(), pid=None)
        if stopped_early:  # the init was killed before it executed the app's program
            self.record.update(exit_code=OWN_FAILURE, reason=NOT_STARTED)
        elif self._failure is not None:
            text = str(self._failure)
            self.record.update(exit_code=failure_code(text), reason=text)
            if self._log is not None:
                self._log.write("stderr", f"{text}\n".encode())
            self.on_output(self, "stderr", f"{text}\n".encode())
        elif self._status is not None:
            killed_for_memory = pod_cgroup.was_out_of_memory(self.context.cgroups, self.name)
            record_exit(self.record, self._status, killed_for_memory)
            if self.streams is not None:
                self.streams.drain()
        self._file.save_exit()
        context = self.context
        argv = ("delete", "--force", context.runtime.container(self.name))
        worker.start(
            context.loop,
            context.private,
            f'delete the container of app "{self.name}"',
            lambda: context.call_runtime(self.name, argv),
            self._deleted,
        )

    def _deleted(self, outcome: Outcome) -> None:
        if outcome.status:
            self.context.is_clean = False
            problem = outcome.error or failure(
                self.context.runtime_log(self.name),
                f"the runtime exited with status {outcome.status}",
            )
            self.context.warn(f"{outcome.action}: {problem}")
        if self.streams is not None:
            if self._failure is None:
                self.streams.drain()
            for watcher in list(self.watchers):
                watcher(self.record["exit_code"])
            self.streams.close()
            self.streams = None
        if self._log is not None:
            self._log.close()
            self._log = None
        error, self._failure = self._failure, None
        self.busy = self._cancelled = False
        done, self._start_done = self._start_done, _nothing
        done(error or PodError(f'start app "{self.name}": it was stopped before its program ran'))
        callbacks, self._stop_done = self._stop_done, []
        for callback in callbacks:
            callback()
        self.on_end(self)
        self._run_queue()

    def halt(self, by: str, seconds: float, done: Callable[[], None]) -> None:
        """Stop the app at once, before its queued requests.

        Calls ``done`` once the app has exited and its container is deleted.  ``seconds`` is the
        time between the stop signal and SIGKILL; with 0, only SIGKILL is sent.  ``by`` ("stop",
        "halt" or "pod stop") is stored in the app's record.
        """
        if not self.busy:
            done()
            return
        self._stop_done.append(done)
        if self.record["state"] == "exited":
            return
        first = not self._cancelled
        self._cancelled = True
        if first:
            self.record["stopped_by"] = by
        if self.pid and first and not self._starting and seconds > 0:
            self._send(self._stop_signal)
        if seconds > 0:
            if self._kill_timer is not None:
                self._kill_timer.cancel()
            self._kill_timer = self.context.loop.after(seconds, self.kill)
        else:
            self.kill()
        if self.record["state"] == "running":
            self.record["state"] = "stopping"
            self._file.save_or_retry()

    @property
    def is_quiet(self) -> bool:
        """Return whether this app allows the monitor to hibernate.

        It does if it is not starting or stopping, and has no queued request, failed record write or
        buffered input.
        """
        if self._queue or self._cancelled or self._file.is_late or not self._is_settled():
            return False
        return not self.busy or (self.streams is not None and self.streams.is_quiet)

    def snapshot(self) -> App:
        """Return the app's state as a JSON object, for the monitor's hibernation.

        Its members are "entry" and "record", and for a running app also "pid", "streams" and "log"
        (a descriptor).  Call it only while ``is_quiet``.
        """
        options: App = {"streams": self.kinds, "stopSignal": str(self._stop_signal)}
        if self._program:
            options["exec"] = [self._program]
        entry = {"name": self.name, "app": options}
        if self._log is None or self.streams is None:
            return {"entry": entry, "record": self.record}
        running = {"log": self._log.descriptor, "streams": self.streams.snapshot()}
        return {"entry": entry, "record": self.record, "pid": self.pid, **running}

    def _restore(self, snapshot: App) -> None:
        self.busy = True
        self.streams = self._connect(snapshot["log"])
        self.streams.restore(snapshot["streams"])
        self._watch_process(snapshot["pid"])

    def _remove(self, seconds: float, done: Done) -> None:
        if self.busy:
            self.halt("stop", seconds, lambda: self._remove(seconds, done))
            return
        if self.record["state"] == "deleting":  # an earlier request has removed the app
            done(None)
            return
        self.busy = True
        self.record["state"] = "deleting"
        self._file.save_or_retry()
        path = f"{self.context.path}/{self.directory}/bundle/rootfs"
        worker.start(
            self.context.loop,
            self.context.private,
            f'unmount the root filesystem of app "{self.name}"',
            lambda: unmount(path),
            lambda outcome: self._removed(outcome, done),
        )

    def _removed(self, outcome: Outcome, done: Done) -> None:
        self.busy = False
        self.record["state"] = "exited" if outcome.status else "deleting"
        if not outcome.status:
            self._file.give_up()  # the client removes the app's directory
        done(PodError(outcome.problem) if outcome.status else None)
        self._run_queue()

    def kill(self) -> None:
        """Send SIGKILL to the app's init.

        The app's other processes are killed when its container is deleted.
        """
        self._cancelled = True
        if self.pid:
            self._send(SIGKILL)

    def _send(self, number: int) -> None:
        # The process is our child and not yet reaped, so the pid cannot have been reused.
        os.kill(self.pid, number)


def _nothing(error: RuntimeFailure | None) -> None:
    del error


def _no_output(app: AppRun, stream: str, data: bytes) -> None:
    del app, stream, data


def _no_end(app: AppRun) -> None:
    del app


def stop_signal(name: str) -> int:
    """Return the number of the signal ``name``, or SIGTERM if the name is invalid.

    ``name`` comes from an untrusted image; the result is always a signal that kill(2) accepts.
    """
    try:
        number = signal_number(name)
    except UsageError:
        return int(signal.SIGTERM)
    return number if number in signal.valid_signals() else int(signal.SIGTERM)
