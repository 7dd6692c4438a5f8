"""An app in its pod's monitor, with an OCI runtime that answers when the test says so."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from ociruntime.base.errors import RuntimeFailure
from ociruntime.pods.bundle.pod_context import PodContext
from ociruntime.pods.bundle.runtime_calls import RuntimeCalls
from ociruntime.pods.loop import worker
from ociruntime.pods.loop.event_loop import Loop
from ociruntime.pods.monitor.app_run import NOT_STARTED, AppRun
from ociruntime.pods.monitor.app_streams import ConsoleListener

KILLED = 9  # wait status of a process that SIGKILL has ended


class Runtime:
    """The runtime's pending calls: (what is attempted, the callback)."""

    def __init__(self) -> None:
        self.pending: list[tuple[str, Callable[[worker.Outcome], None]]] = []

    def start(self, *arguments: Any) -> None:  # noqa: ANN401 - as worker.start
        _, _, action, _, done = arguments
        self.pending.append((action, done))

    def answer(self, status: int = 0, error: str = "", action: str = "") -> None:
        """Complete the oldest call."""
        attempted, done = self.pending.pop(0)
        assert action in attempted
        done(worker.Outcome(attempted, status, {"error": error} if error else {}))


class Pod:
    """An app ``a``, and the calls of its callbacks."""

    def __init__(self, runtime: Runtime, kinds: dict[str, str]) -> None:
        self.loop = Loop()
        self.runtime = runtime
        self.warnings: list[str] = []
        self.done: list[RuntimeFailure | None] = []
        context = PodContext(self.loop, os.getcwd(), RuntimeCalls("/runtime", "uuid", False))
        context.warn = self.warnings.append
        self.context = context
        entry = {"name": "a", "app": {"exec": ["/program"], "streams": kinds}}
        self.app = AppRun(context, entry)
        self.processes: list[subprocess.Popen[bytes]] = []

    def init(self) -> subprocess.Popen[bytes]:
        """Start the process that is the app's init, and write its pid file."""
        one = subprocess.Popen(["/bin/sleep", "600"])
        self.processes.append(one)
        Path("apps/a/pid").write_text(str(one.pid))
        return one

    def start(self) -> None:
        self.app.start(self.done.append)

    def run(self) -> subprocess.Popen[bytes]:
        """Run the app until it exits."""
        self.start()
        init = self.init()
        self.runtime.answer(action="create")
        self.runtime.answer(action="start")
        return init

    def exit(self, status: int = KILLED) -> None:
        """Report the exit of the app's init to the monitor."""
        self.app._exited(status)

    def is_active(self) -> bool:
        return self.app.is_active

    @property
    def errors(self) -> list[str]:
        return [str(error) if error else "" for error in self.done]

    @property
    def stored(self) -> dict[str, Any]:
        return cast("dict[str, Any]", json.loads(Path("apps/a/state.json").read_text()))

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        if self.app.streams is not None:
            self.app.streams.close()
        self.loop.close()


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Runtime:
    one = Runtime()
    monkeypatch.chdir(tmp_path)
    Path("apps/a/bundle").mkdir(parents=True)
    Path("logs").mkdir()
    monkeypatch.setattr(worker, "start", one.start)
    return one


@pytest.fixture
def pod(runtime: Runtime) -> Iterator[Pod]:
    one = Pod(runtime, {})
    yield one
    one.close()


def test_start_and_exit(pod: Pod) -> None:
    pod.run()
    assert (pod.errors, pod.stored["state"], pod.is_active()) == ([""], "running", True)
    pod.exit(3 << 8)
    assert (pod.stored["exit_code"], pod.is_active()) == (3, True)
    pod.runtime.answer(action="delete")
    assert not pod.is_active()
    assert Path("apps/a/status").read_text() == "3\n"


def test_the_runtime_cannot_create_a_container_with_a_terminal(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has already sent the terminal: the monitor closes it."""
    pod = Pod(runtime, {"stdin": "tty"})
    reader, master = os.pipe()
    original = ConsoleListener.take

    def take(listener: ConsoleListener) -> int:
        assert original(listener) == -1
        return master

    monkeypatch.setattr(ConsoleListener, "take", take)
    try:
        pod.start()
        runtime.answer(1, "no such device", "create")
        assert os.read(reader, 1) == b""
        runtime.answer(action="delete")
        assert pod.errors == ["no such device"]
        assert (pod.stored["state"], pod.stored["reason"]) == ("exited", "no such device")
    finally:
        os.close(reader)
        pod.close()


def test_the_runtime_does_not_start_the_container(pod: Pod) -> None:
    """The init would wait forever: it is killed, and the container deleted."""
    pod.start()
    init = pod.init()
    pod.runtime.answer(action="create")
    pod.runtime.answer(1, action="start")
    assert init.wait(10) == -signal.SIGKILL
    assert not pod.runtime.pending
    pod.exit()
    pod.runtime.answer(action="delete")
    (failure,) = pod.errors
    assert failure.startswith('start app "a": ')
    assert "exited with status 1" in failure
    assert (pod.stored["exit_code"], pod.stored["reason"]) == (254, failure)
    assert failure in Path("logs/a.log").read_text()


def test_an_init_that_exits_before_the_runtime_has_failed_to_start_it(pod: Pod) -> None:
    pod.start()
    pod.init()
    pod.runtime.answer(action="create")
    pod.exit()
    assert [action for action, _ in pod.runtime.pending] == ['start the container of app "a"']
    pod.runtime.answer(1, "not found", "start")
    pod.runtime.answer(action="delete")
    assert pod.errors == ["not found"]
    assert pod.stored["state"] == "exited"


def test_an_init_that_exits_before_the_runtime_has_started_it(pod: Pod) -> None:
    pod.start()
    pod.init()
    pod.runtime.answer(action="create")
    pod.exit(0)
    pod.runtime.answer(action="start")
    pod.runtime.answer(action="delete")
    assert pod.errors == [""]
    assert (pod.stored["state"], pod.stored["exit_code"]) == ("exited", 0)


def test_a_stop_while_the_container_is_created(pod: Pod) -> None:
    """Its program never runs; the stop completes once the container is deleted."""
    stopped: list[str] = []
    pod.start()
    pod.app.halt("stop", 10, lambda: stopped.append("first"))
    pod.app.halt("pod stop", 0, lambda: stopped.append("second"))
    init = pod.init()
    pod.runtime.answer(action="create")
    assert init.wait(10) == -signal.SIGKILL
    pod.exit()
    assert (pod.stored["reason"], pod.stored["stopped_by"]) == (NOT_STARTED, "stop")
    pod.app.halt("stop", 10, lambda: stopped.append("third"))
    assert stopped == []
    pod.runtime.answer(action="delete")
    assert stopped == ["first", "second", "third"]
    (failure,) = pod.errors
    assert failure.startswith('start app "a": ')
    assert "was stopped" in failure


def test_a_stop_while_the_container_is_started(pod: Pod) -> None:
    """The signal is sent once the program runs: earlier, it would kill the init."""
    pod.start()
    init = pod.init()
    pod.runtime.answer(action="create")
    pod.app.halt("stop", 10, lambda: None)
    assert init.poll() is None
    pod.runtime.answer(action="start")
    assert init.wait(10) == -signal.SIGTERM
    assert pod.stored["state"] == "stopping"


def test_a_container_that_cannot_be_deleted(pod: Pod) -> None:
    pod.run()
    pod.exit()
    pod.runtime.answer(1, action="delete")
    (warning,) = pod.warnings
    assert 'app "a": ' in warning
    assert "status 1" in warning
    assert not pod.context.is_clean
    assert not pod.app.is_active


def test_an_app_is_removed_twice(pod: Pod) -> None:
    """The second request, which waited for the first, has nothing left to unmount."""
    pod.run()
    pod.app.remove(0, pod.done.append)
    pod.app.remove(0, pod.done.append)
    pod.exit()
    pod.runtime.answer(action="delete")
    pod.runtime.answer(action="unmount")
    assert pod.errors == ["", "", ""]
    assert not pod.runtime.pending
    pod.start()
    assert pod.errors[-1].startswith('start app "a" of pod uuid: ')
    assert "been removed" in pod.errors[-1]


def test_a_root_filesystem_that_cannot_be_unmounted(pod: Pod) -> None:
    pod.app.remove(0, pod.done.append)
    pod.runtime.answer(254, "unmount: device or resource busy", "unmount")
    assert pod.errors == ["unmount: device or resource busy"]
    assert pod.app.record["state"] == "exited"
    pod.app.remove(0, pod.done.append)
    pod.runtime.answer(137, action="unmount")
    assert 'app "a": ' in pod.errors[1]
    assert "status 137" in pod.errors[1]


def test_streams_that_cannot_be_made(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    """For example, the third of four pipes fails: the others are closed."""
    before = os.listdir("/proc/self/fd")
    pipes = [os.pipe2]

    def no_more(flags: int) -> tuple[int, int]:
        if not pipes:
            raise OSError(24, os.strerror(24))
        return pipes.pop()(flags)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pipe2", no_more)
        pod.start()
    pod.runtime.answer(action="delete")
    (failure,) = pod.errors
    assert failure.endswith("of an app: too many open files")
    assert os.listdir("/proc/self/fd") == before
