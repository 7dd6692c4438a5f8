"""`run`, `create`, `exec` and `ps`: containers that vanish, and errors on the way."""

from __future__ import annotations

import errno
import os
from types import SimpleNamespace
from typing import Any

import pytest

from ociruntime.base import foreground
from ociruntime.base.errors import HostError, NoSuchContainer, NotRunning, RuntimeFailure
from ociruntime.base.log import Log
from ociruntime.runtime.executor.protocol import LONG, Message
from ociruntime.runtime.lifecycle import (
    create,
    join_cgroup,
    passed_descriptors,
    ps,
    run,
    timeline,
)
from ociruntime.runtime.lifecycle import exec as exec_module
from ociruntime.runtime.lifecycle.context import Context, CreateOptions
from ociruntime.runtime.lifecycle.create_steps import Creation
from ociruntime.runtime.lifecycle.timeline import Timeline
from ociruntime.runtime.plan import operation_table as ops

CONTEXT = Context("/gone", Log())


def os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def failing(error: BaseException) -> Any:  # noqa: ANN401
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


class Foreground:
    """A container in the foreground; ``done`` are the steps in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[str] = []
        note = self.done.append
        self.executor = SimpleNamespace(pidfd=os.open("/dev/null", os.O_RDONLY), pid=71)
        creation = SimpleNamespace(
            executor=self.executor,
            master=-1,
            container=lambda: "container",
            lock=SimpleNamespace(release=lambda: note("unlock")),
        )
        signals = SimpleNamespace(release=lambda: note("release signals"))
        monkeypatch.setattr(run, "become_subreaper", lambda: note("subreaper"))
        monkeypatch.setattr(run, "begin", lambda context, options: creation)
        monkeypatch.setattr(run, "_start", lambda *_: note("start"))
        monkeypatch.setattr(run, "_undo", lambda context, container: note("undo"))
        monkeypatch.setattr(run, "delete_after_end", lambda *_: note("delete"))
        monkeypatch.setattr(foreground, "open_relay", lambda master: None)
        monkeypatch.setattr(foreground, "SignalQueue", lambda: signals)
        monkeypatch.setattr(foreground, "wait_foreground", lambda *_: 7)

    def __call__(self, **options: bool) -> int:
        chosen = CreateOptions("web", "/b")
        for name, value in options.items():
            setattr(chosen, name, value)
        return run._run_attached(CONTEXT, chosen)


@pytest.fixture
def attached(monkeypatch: pytest.MonkeyPatch) -> Foreground:
    return Foreground(monkeypatch)


def test_status(attached: Foreground) -> None:
    assert attached() == 7
    assert attached.done == ["subreaper", "start", "unlock", "delete"]
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(attached.executor.pidfd)


def test_kept_container(attached: Foreground) -> None:
    assert attached(keep=True, no_subreaper=True) == 7
    assert attached.done == ["start", "unlock"]


def test_relay_that_cannot_be_opened(attached: Foreground, monkeypatch: pytest.MonkeyPatch) -> None:
    """The container is removed again, while this command still holds its lock."""
    monkeypatch.setattr(foreground, "open_relay", failing(os_error(errno.EMFILE)))
    with pytest.raises(OSError, match="Too many open files"):
        attached()
    assert attached.done == ["subreaper", "undo", "unlock"]


def test_failed_start(attached: Foreground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_start", failing(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        attached()
    assert attached.done == ["subreaper", "release signals", "unlock"]


@pytest.mark.parametrize("hint", ["", "mend it"])
def test_failed_deletion(attached: Foreground, monkeypatch: pytest.MonkeyPatch, hint: str) -> None:
    """The user learns that the container is still there."""
    failure = RuntimeFailure("cgroup is busy", hint)
    monkeypatch.setattr(run, "delete_after_end", failing(failure))
    with pytest.raises(RuntimeFailure, match="cgroup is busy") as caught:
        attached()
    assert 'container "web"' in caught.value.hint
    assert caught.value.hint.startswith(hint)


def test_container_that_another_command_has_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "lock", failing(NoSuchContainer("web")))
    monkeypatch.setattr(run, "destroy", failing(AssertionError()))
    run.delete_after_end(CONTEXT, "web")


def test_removed_bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = SimpleNamespace(path="/gone/bundle")
    prepared = SimpleNamespace(bundle=bundle, config={}, annotations={})
    monkeypatch.setattr(create, "prepare", lambda *_: prepared)
    context = Context("/gone", Log(), alone=False)
    with pytest.raises(HostError, match='"/gone/bundle": no such file'):
        create.begin(context, CreateOptions("web", "/gone/bundle"))


@pytest.mark.parametrize(("unit", "hint"), [("", ""), ("c1.scope", "memory.limit")])
def test_killed_executor(unit: str, hint: str) -> None:
    """The count of OOM kills of a systemd unit is gone with its last process."""
    cgroup = SimpleNamespace(oom_killed=lambda: False, unit=unit)
    prepared: Any = SimpleNamespace(cgroup=cgroup, resources={"memory": {"limit": 4096}})
    creation = Creation(CONTEXT, CreateOptions("c1", "/nowhere"), prepared)
    error = creation._vanished()
    assert hint in error.hint
    assert bool(error.hint) is bool(hint)


def exec_in(monkeypatch: pytest.MonkeyPatch, number: int, *, alive: bool = True) -> None:
    child = os.getpid() if alive else os.posix_spawn("/bin/true", ["true"], {})
    init = os.pidfd_open(child)
    if not alive:
        os.waitpid(child, 0)
    container: Any = SimpleNamespace(id="web", pid=child)
    if number:
        error = HostError("namespaces", os_error(number))
        monkeypatch.setattr(exec_module, "namespaces_apart", failing(error))
    else:
        monkeypatch.setattr(exec_module, "namespaces_apart", lambda pid: 0)
    options: Any = None
    config: Any = {"ociVersion": "1.0.2", "root": {"path": "r"}}
    with os.fdopen(init):
        exec_module._compile(CONTEXT, options, container, config, options, init)


@pytest.mark.parametrize(
    ("number", "alive", "error"),
    [
        (errno.ENOENT, True, NotRunning),
        (errno.ESRCH, True, NotRunning),
        (errno.EACCES, True, HostError),
        (0, False, NotRunning),
    ],
)
def test_exec_in_a_container_that_exits(
    monkeypatch: pytest.MonkeyPatch, number: int, alive: bool, error: type[Exception]
) -> None:
    """Its namespaces cannot be read, or are those of another process by now."""
    with pytest.raises(error):
        exec_in(monkeypatch, number, alive=alive)


def test_refused_cgroup() -> None:
    """The executor reports the number of the cgroup that it could not enter."""
    data = LONG.pack(ops.MESSAGE_FAILURE, 0, 0, errno.EBUSY, join_cgroup.ENTER.encode(), b"1", b"")
    seen: list[Any] = []

    def entry_failure(pid: int, index: int, error: OSError) -> HostError:
        seen.append((pid, index, error.errno))
        return HostError("enter", error)

    cgroup: Any = SimpleNamespace(entry_failure=entry_failure)
    with pytest.raises(HostError, match="busy"):
        join_cgroup.refuse_entry(cgroup, 71, Message(data))
    assert seen == [(71, 1, errno.EBUSY)]


def test_no_descriptor_for_placeholders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posix.open", failing(os_error(errno.EMFILE)))
    with pytest.raises(HostError, match=r"--preserve-fds 5: .*too many open files"):
        passed_descriptors.occupy_closed(5, 0)


def test_no_ps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ps, "find_program", lambda name: "")
    with pytest.raises(HostError, match="run ps") as caught:
        ps._run_ps(["-ef"])
    assert "procps" in caught.value.hint
    before = os.listdir("/proc/self/fd")
    monkeypatch.setattr(ps, "find_program", lambda name: "/gone/ps")
    with pytest.raises(HostError, match='run "/gone/ps": '):
        ps._run_ps(["-ef"])
    assert os.listdir("/proc/self/fd") == before


def test_no_memory_for_a_timeline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a plan, there are no times of operations."""
    lines: Any = Timeline.__new__(Timeline)
    lines._times_fd = -1
    assert lines.times() == []
    monkeypatch.setattr(timeline.Timeline, "mark", lambda self, phase: None)
    monkeypatch.setattr(os, "memfd_create", failing(os_error(errno.EMFILE)))
    with pytest.raises(HostError, match="too many open files"):
        lines.follow(SimpleNamespace(operations=[]))
