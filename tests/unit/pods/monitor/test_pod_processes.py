"""A pod's init that fails to start, and processes of the pod that exit."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator

import pytest

from ociruntime.base.errors import HostError, PodError
from ociruntime.pods.loop.event_loop import Loop
from ociruntime.pods.monitor import pod_processes
from ociruntime.pods.monitor.pod_processes import PodProcesses

Reports = Callable[[bytes], None]


@pytest.fixture
def pod() -> Iterator[PodProcesses]:
    loop = Loop()
    lock = os.open("/", os.O_RDONLY)
    yield PodProcesses(loop, lock, [])
    os.close(lock)
    loop.close()


@pytest.fixture
def init() -> Iterator[subprocess.Popen[bytes]]:
    """A process in place of the pod's init."""
    with subprocess.Popen(["/bin/sleep", "600"]) as process:
        yield process
        process.kill()


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reports]:
    """Yield a function that replaces the start of a lock holder, which reports and exits."""
    holder = os.posix_spawn("/bin/true", ["true"], {})
    os.waitid(os.P_PID, holder, os.WEXITED | os.WNOWAIT)  # it has exited, but is not reaped

    def report_when_started(report: bytes) -> None:
        def spawn(pod: PodProcesses, arguments: list[str], descriptors: tuple[int, ...]) -> None:
            assert arguments[0] == "pod"
            os.write(descriptors[-1], report)
            pod._lock_holder = holder

        monkeypatch.setattr(PodProcesses, "_spawn", spawn)

    yield report_when_started
    os.waitpid(holder, 0)


@pytest.mark.parametrize(
    ("report", "message"),
    [
        (b"", "start the .* init: it exited"),
        (b"12", "start the .* init: it exited"),
        (b"0\n", r"create the .* namespaces: clone\(2\) failed \(dmesg may .* why"),
    ],
)
def test_an_init_that_is_not_there(
    pod: PodProcesses, reports: Reports, report: bytes, message: str
) -> None:
    reports(report)
    with pytest.raises(PodError, match=message):
        pod.start(("pid",), "", "")
    pod._lock_holder_ended(0)
    assert pod.is_over
    pod.end()
    assert pod._control == -1


def test_a_system_call_of_the_init_that_fails(
    pod: PodProcesses, reports: Reports, init: subprocess.Popen[bytes]
) -> None:
    """The init is known by then, and exits with the pod."""
    reports(b"%d\nset the hostname: sethostname(2) 13\n" % init.pid)
    message = r"start the .* init: set the hostname: sethostname\(2\): permission denied"
    with pytest.raises(HostError, match=message):
        pod.start(("pid",), "name", "")
    assert pod.pids == {init.pid, pod._lock_holder}
    pod.end()
    assert init.wait(10) == -9
    ended: list[str] = []
    pod.on_init_exit = lambda: ended.append("init")
    pod.on_end = lambda: ended.append("pod")
    pod._init_ended(9)
    assert ended == ["init"]
    pod._lock_holder_ended(0)
    assert ended == ["init", "pod"]
    assert pod.is_over
    assert (pod._control, pod._alive, pod._pidfd) == (-1, -1, -1)


def test_an_init_that_is_killed(
    pod: PodProcesses, reports: Reports, init: subprocess.Popen[bytes]
) -> None:
    """Its report ends without a word: neither an error nor that it is ready."""
    reports(b"%d\n" % init.pid)
    with pytest.raises(PodError, match="was killed"):
        pod.start((), "", "")


def test_id_maps_that_are_refused(
    pod: PodProcesses, reports: Reports, init: subprocess.Popen[bytes]
) -> None:
    """The process has no user namespace of its own whose map could be written."""
    reports(b"%d\n" % init.pid)
    path = f"/proc/{init.pid}/uid_map"
    with pytest.raises(HostError, match=f'write "{path}" .*: operation not perm'):
        pod.start(("pid", "user"), "", "0 100000 65536\n")
    pod.end()
    assert init.wait(10) == -9


def refuse(*_: object, **__: object) -> int:
    raise OSError(11, os.strerror(11))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("pipe2", "start the .* init: resource temporarily unavailable"),
        ("posix_spawn", f'start "{pod_processes.PROGRAM}": resource temporarily unavailable'),
    ],
)
def test_a_lock_holder_that_cannot_be_started(
    pod: PodProcesses, monkeypatch: pytest.MonkeyPatch, call: str, message: str
) -> None:
    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(HostError, match=message):
        pod.start((), "", "")
    assert pod.is_over


def test_a_lock_holder_that_was_killed(
    pod: PodProcesses,
    reports: Reports,
    init: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another one replaces it while the init runs; without an init, the pod has exited."""
    reports(b"%d\nready\n" % init.pid)
    pod.start((), "", "")
    started: list[list[str]] = []
    ended: list[str] = []
    pod.on_end = lambda: ended.append("pod")

    def spawn(_: PodProcesses, arguments: list[str], descriptors: tuple[int, ...]) -> None:
        assert descriptors == (pod._lock, pod._pidfd, pod._alive)
        assert min(descriptors) >= 0
        started.append(arguments)

    monkeypatch.setattr(PodProcesses, "_spawn", spawn)
    pod._lock_holder_ended(9)
    assert [arguments[0] for arguments in started] == ["keep"]
    assert ended == []
    _end(pod, init)
    assert ended == ["pod"]
    pod._lock_holder_ended(0)
    assert len(started) == 1
    assert ended == ["pod", "pod"]


def _end(pod: PodProcesses, init: subprocess.Popen[bytes]) -> None:
    pod.end()
    init.wait(10)
    report: Callable[[int], None] = pod._init_ended
    report(9)
