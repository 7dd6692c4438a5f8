"""`delete` of containers whose init does not exit, or is locked by another command."""

from __future__ import annotations

import os
import subprocess
from types import SimpleNamespace
from typing import Any

import pytest

from ociruntime.base.errors import ContainerError, HostError
from ociruntime.base.log import Log
from ociruntime.base.process import start_time
from ociruntime.runtime.lifecycle import delete as module
from ociruntime.runtime.lifecycle import intel_rdt_groups
from ociruntime.runtime.lifecycle.context import Context

CONTEXT = Context("/gone", Log())


def container_of(pid: int, done: list[str], above: str = "", directory: str = "/gone") -> Any:  # noqa: ANN401
    cgroup = SimpleNamespace(
        let_die=lambda: done.append("let die"),
        kill=lambda: done.append("kill all"),
        frozen_above=lambda *, undying: above if undying else "/other",
        remove=lambda kill: done.append(f"remove cgroup, kill {kill}"),
    )
    return SimpleNamespace(
        id="web",
        pid=pid,
        started=start_time(pid),
        directory=directory,
        facts={"freezer": "/cg/freezer.state", "hooks": {}},
        cgroup=lambda: cgroup,
    )


def test_init(init: subprocess.Popen[bytes]) -> None:
    done: list[str] = []
    container = container_of(init.pid, done)
    module._end(container)
    assert init.wait() == -9
    assert done == ["let die"], "a v1 process that is frozen cannot exit"
    module._end(container)
    assert done == ["let die"]


def test_traced_init(init: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process of the container delays its exit: that one is killed, too."""
    done: list[str] = []
    answers = [False, True]
    monkeypatch.setattr(module, "await_end", lambda pidfd, seconds: answers.pop(0))
    module._end(container_of(init.pid, done))
    assert done == ["let die", "kill all"]


def test_init_below_a_frozen_cgroup(
    init: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(module, "await_end", lambda pidfd, seconds: False)
    with pytest.raises(ContainerError, match='"web": cgroup "/cg/outer" is frozen') as caught:
        module._end(container_of(init.pid, [], "/cg/outer"))
    assert "/cg/outer/freezer.state" in caught.value.hint
    assert len(os.listdir("/proc/self/fd")) == before


def test_init_stuck_in_the_kernel(
    init: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "await_end", lambda pidfd, seconds: False)
    done: list[str] = []
    with pytest.raises(HostError, match=f'process {init.pid} .*"web": timed out') as caught:
        module._end(container_of(init.pid, done))
    assert "D state" in caught.value.hint
    assert done[-1] == "kill all"


@pytest.mark.parametrize("force", [False, True])
def test_container_locked_by_another_command(
    init: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, force: bool
) -> None:
    """With --force, the init is killed, so that a `start` that waits for it releases the lock."""
    container = container_of(init.pid, [])
    waits: list[object] = []

    def lock(root: str, container_id: str, *seconds: float) -> tuple[object, object]:
        waits.append(seconds)
        if len(waits) == 1:
            raise ContainerError("in use by another command")
        return container, "lock"

    monkeypatch.setattr(module, "lock", lock)
    monkeypatch.setattr(module, "load", lambda root, container_id: container)
    if force:
        assert module._lock(CONTEXT, "web", force)[0] is container
        assert init.wait(10) == -9
        assert waits == [(module.BUSY_SECONDS,), ()]
    else:
        with pytest.raises(ContainerError, match="in use"):
            module._lock(CONTEXT, "web", force)
        assert init.poll() is None


def test_resctrl_groups(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:  # noqa: ANN401
    """They are removed while the record of them is still there."""
    (tmp_path / "web").mkdir()
    (tmp_path / "web/rdt.json").touch()
    done: list[str] = []
    monkeypatch.setattr(module, "_end", lambda container: done.append("end"))

    def leave(directory: str) -> None:
        assert os.path.exists(f"{directory}/rdt.json")
        done.append("leave resctrl")

    monkeypatch.setattr(intel_rdt_groups, "leave", leave)
    module.destroy(CONTEXT, container_of(os.getpid(), done, directory=f"{tmp_path}/web"))
    assert done == ["end", "remove cgroup, kill True", "leave resctrl"]
    assert os.listdir(tmp_path) == []
