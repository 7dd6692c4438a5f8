"""`kill`, `pause` and `list` of containers that exit or are deleted in the meantime."""

from __future__ import annotations

import errno
import os
import posix
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ociruntime.base.errors import ContainerError, HostError, NoSuchContainer, NotRunning
from ociruntime.base.process import start_time
from ociruntime.runtime.cgroups import freezer
from ociruntime.runtime.lifecycle import kill as module
from ociruntime.runtime.lifecycle import list as listing
from ociruntime.runtime.lifecycle import pause, select_by_regex
from ociruntime.runtime.lifecycle.container import Container

CONTEXT: Any = SimpleNamespace(root="/gone", root_given=True, log=None)
SIGTERM, SIGKILL = 15, 9


class Fake(SimpleNamespace):
    """A container with a cgroup, which records what is done with it."""

    def __init__(self, pid: int = os.getpid(), **facts: object) -> None:
        self.done: list[str] = []
        self.others: list[int] = []
        cgroup = SimpleNamespace(
            processes=lambda: self.others,
            kill=lambda: self.done.append("kill all"),
            freezable=True,
            thaw=lambda: self.done.append("thaw"),
        )
        super().__init__(
            id="web",
            pid=pid,
            started=start_time(pid),
            facts={"ownPidNamespace": False, "freezer": "", **facts},
            cgroup=lambda: cgroup,
        )


def kill(monkeypatch: pytest.MonkeyPatch, container: Fake, signal: int) -> None:
    monkeypatch.setattr(module, "load", lambda root, container_id: container)
    module.kill(CONTEXT, "web", signal, all=False)


def exited(*, own: bool = False) -> Fake:
    container = Fake(ownPidNamespace=own)
    container.started += 1
    return container


def test_rest_of_a_shared_pid_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    """The init has exited, but the kernel has not killed its other processes."""
    container = exited()
    with pytest.raises(NotRunning):
        kill(monkeypatch, container, SIGKILL)
    container.others = [4711]
    with pytest.raises(NotRunning):
        kill(monkeypatch, container, SIGTERM)
    assert container.done == []
    kill(monkeypatch, container, SIGKILL)
    assert container.done == ["kill all"]


def test_exited_init_of_an_own_pid_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    container = exited(own=True)
    container.others = [4711]
    with pytest.raises(NotRunning):
        kill(monkeypatch, container, SIGKILL)
    assert container.done == []


@pytest.mark.parametrize(("own", "done"), [(True, []), (False, ["kill all"])])
def test_killed_init(
    monkeypatch: pytest.MonkeyPatch, init: subprocess.Popen[bytes], own: bool, done: list[str]
) -> None:
    """On v2, a frozen process dies without help."""
    container = Fake(init.pid, ownPidNamespace=own, freezer="/cg/cgroup.freeze")
    kill(monkeypatch, container, SIGKILL)
    assert init.wait() == -SIGKILL
    assert container.done == done


@pytest.mark.parametrize(
    ("state", "children", "thawed"),
    [("THAWED\n", 0, False), ("FROZEN\n", 0, True), ("THAWED\n", 1, True), (None, 0, False)],
)
def test_thaw(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    state: str | None,
    children: int,
    thawed: bool,
) -> None:
    """Child cgroups may be frozen; a removed cgroup needs nothing."""
    found: list[str] = []
    monkeypatch.setattr(freezer, "thaw_tree", found.append)
    if state is not None:
        (tmp_path / "freezer.state").write_text(state)
    status = SimpleNamespace(st_nlink=module.CHILDLESS + children)
    monkeypatch.setattr(posix, "stat", lambda directory: status)
    module._thaw(f"{tmp_path}/freezer.state")
    assert found == [str(tmp_path)] * thawed


@pytest.mark.parametrize("signal", [SIGTERM, SIGKILL])
def test_all(monkeypatch: pytest.MonkeyPatch, signal: int) -> None:
    """SIGKILL also reaches processes that fork faster than they are listed."""
    container = Fake()
    monkeypatch.setattr(
        "ociruntime.runtime.lifecycle.container_processes.signal_members",
        lambda container, number: container.done.append(f"signal {number}"),
    )
    module._signal_all(cast("Container", container), signal)
    assert container.done == ["kill all"] * (signal == SIGKILL) + [f"signal {signal}"]


@pytest.mark.parametrize(("alive", "error"), [(True, HostError), (False, NotRunning)])
def test_failed_pause(alive: bool, error: type[Exception]) -> None:
    """If the container has exited, its cgroup is thawed, and the command says so."""
    container: Any = Fake()
    container.alive = lambda: alive

    def freeze() -> None:
        raise HostError("freeze", OSError(errno.ETIMEDOUT, "timed out"))

    container.cgroup().freeze = freeze
    with pytest.raises(error):
        pause._apply(container, freeze=True)
    assert container.done == ["thaw"] * (not alive)


def failing(error: Exception) -> Callable[..., Any]:
    def fail(*_: object) -> None:
        raise error

    return fail


def host_error(number: int) -> HostError:
    return HostError("read", OSError(number, os.strerror(number)))


def test_list_without_a_state_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that the user has named must exist; the usual one may be missing."""
    monkeypatch.setattr(listing, "container_ids", failing(host_error(errno.ENOENT)))
    usual: Any = SimpleNamespace(root="/gone", root_given=False)
    assert listing.list_containers(usual) == []
    with pytest.raises(HostError):
        listing.list_containers(CONTEXT)
    monkeypatch.setattr(listing, "container_ids", failing(host_error(errno.EIO)))
    with pytest.raises(HostError):
        listing.list_containers(usual)


def test_list_while_containers_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    results: dict[str, Any] = {
        "a": {"id": "a"},
        "b": NoSuchContainer("b"),
        "c": FileNotFoundError(2, "No such file or directory"),
        "d": ContainerError("damaged"),
        "e": {"id": "e"},
    }

    def describe(container_id: str) -> dict[str, Any]:
        found: Any = results[container_id]
        if isinstance(found, Exception):
            raise found
        return dict(found)

    warnings: list[str] = []
    monkeypatch.setattr(listing, "container_ids", lambda root: list(results))
    monkeypatch.setattr(listing, "load", lambda root, container_id: container_id)
    monkeypatch.setattr(listing, "describe_container", describe)
    context: Any = SimpleNamespace(root="/r", log=SimpleNamespace(warning=warnings.append))
    assert [each["id"] for each in listing.list_containers(context)] == ["a", "e"]
    assert len(warnings) == 1
    assert '"d": damaged' in warnings[0]


def test_regex(monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers that have gone are skipped; one failure does not stop the others."""
    errors = {"web1": NotRunning("web1"), "web2": NoSuchContainer("web2")}
    errors |= {"web3": ContainerError("web3 fails"), "web5": ContainerError("web5 fails")}
    tried: list[str] = []

    def act(container_id: str) -> None:
        tried.append(container_id)
        if container_id in errors:
            raise errors[container_id]

    ids = ["db", *errors, "web4", "web6"]
    monkeypatch.setattr(select_by_regex, "container_ids", lambda root: ids)
    with pytest.raises(ContainerError, match=r"^web3 fails; web5 fails$"):
        select_by_regex.for_each_match(CONTEXT, "^web", act)
    assert tried == ids[1:]


def test_regex_without_a_state_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select_by_regex, "container_ids", failing(host_error(errno.ENOENT)))
    select_by_regex.for_each_match(CONTEXT, ".", pytest.fail)
    monkeypatch.setattr(select_by_regex, "container_ids", failing(host_error(errno.EIO)))
    with pytest.raises(HostError):
        select_by_regex.for_each_match(CONTEXT, ".", pytest.fail)
