"""Steps of `create` whose init exits without a message: an error, or not."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ociruntime.base.errors import HostError
from ociruntime.base.log import Log
from ociruntime.base.process import end_on_signals
from ociruntime.runtime.lifecycle import create_steps, intel_rdt_groups, run
from ociruntime.runtime.lifecycle.container import Container
from ociruntime.runtime.lifecycle.context import Context, CreateOptions
from ociruntime.runtime.lifecycle.create_steps import Creation
from ociruntime.runtime.lifecycle.rollback import Rollback

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ({"memory": {"limit": 4096}}, "linux.resources.memory.limit: 4096 bytes"),
        ({"memory": {"swap": 4096}}, "OOM-killed (it has no"),
        ({}, "OOM-killed (it has no"),
    ],
)
def test_killed_for_want_of_memory(resources: Any, words: str) -> None:  # noqa: ANN401
    """The kernel also counts what a limit further up has killed."""
    cgroup = SimpleNamespace(oom_killed=lambda: True, unit="")
    prepared: Any = SimpleNamespace(cgroup=cgroup, resources=resources)
    creation = Creation(Context("/nowhere", Log()), CreateOptions("c1", "/nowhere"), prepared)
    assert words in str(creation._vanished())


def test_an_init_killed_once_the_container_is_published_is_no_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another command may `kill` a published container before its `create` has returned."""
    ours, executors = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    creation = object.__new__(Creation)
    creation.executor = SimpleNamespace(pidfd=-1, channel=ours)  # type: ignore[assignment]

    def publish(_creation: Creation, _pidfd: int) -> None:
        executors.close()  # as the kernel does for a killed process

    monkeypatch.setattr(Creation, "_publish", publish)
    creation._commit()
    assert ours.fileno() == -1


@pytest.fixture
def ending_signals() -> Iterator[None]:
    """The signals that end a command interrupt this process, as they do the program."""
    before = {number: signal.getsignal(number) for number in ENDING}
    end_on_signals()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("ending_signals")
def test_a_signal_while_undoing_skips_no_poststop_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    """They release what other hooks have taken; and the error of `create` is not lost."""
    creation = object.__new__(Creation)
    creation._context = Context("/nowhere", Log())
    creation._rollback = Rollback(Log())
    done: list[str] = []

    def begin(creation: Creation) -> None:
        creation._rollback.push(lambda: done.append("removed"))
        creation._rollback.push(lambda: os.kill(os.getpid(), signal.SIGTERM))
        raise HostError("create the cgroup", OSError(28, "no space left on device"))

    monkeypatch.setattr(Creation, "_begin", begin)
    monkeypatch.setattr(Creation, "_after_failure", lambda _: done.append("poststop"))
    with pytest.raises(HostError, match="no space left"):
        creation.run()
    assert done == ["removed", "poststop"]


@pytest.mark.usefixtures("ending_signals")
def test_a_signal_while_run_deletes_what_it_could_not_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`run` leaves nothing after a failed hook."""
    done: list[str] = []

    def destroy(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        done.append("removed")

    monkeypatch.setattr(run, "destroy", destroy)
    container = Container("c1", "/nowhere", {})
    run._undo(Context("/nowhere", Log()), container)
    assert done == ["removed"]


def creation_of(config: Any, done: list[object], **members: object) -> Any:  # noqa: ANN401
    """Return a creation whose cgroup records in ``done`` what is done with it."""
    cgroup = SimpleNamespace(
        adopted=False,
        born_inside=True,
        unit=members.pop("unit", ""),
        create=lambda resources: done.append("create"),
        apply=lambda resources: done.append("apply"),
        hand_over=lambda uid: done.append(f"hand over to {uid}"),
        first_pid=0,
    )
    prepared = SimpleNamespace(
        **{
            "cgroup": cgroup,
            "config": config,
            "resources": {},
            "layout": SimpleNamespace(mode="v2"),
            "rdt": None,
            "hooks": lambda kind: [],
            **members,
        }
    )
    options = CreateOptions("c1", "/nowhere")
    creation: Any = Creation(Context("/nowhere", Log()), options, cast("Any", prepared))
    creation.executor = SimpleNamespace(pid=71)
    return creation


NESTING: Any = {
    "mounts": [{"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup"}],
    "process": {"user": {"uid": 1000, "gid": 0}},
    "linux": {"namespaces": [{"type": "cgroup"}]},
}


@pytest.mark.parametrize(
    ("config", "mode", "handed"),
    [(NESTING, "v2", ["hand over to 1000"]), (NESTING, "v1", []), ({}, "v2", [])],
)
def test_owner_of_the_cgroup(config: Any, mode: str, handed: list[str]) -> None:  # noqa: ANN401
    """Only on v2 is it safe for the container to own its cgroup."""
    done: list[object] = []
    creation_of(config, done, layout=SimpleNamespace(mode=mode))._make_cgroup()
    assert done == ["create", *handed]


@pytest.mark.parametrize("unit", ["", "c1.scope"])
def test_entry(monkeypatch: pytest.MonkeyPatch, unit: str) -> None:
    """A systemd unit is created with the init's pid; the fast path cannot undo resctrl groups."""
    done: list[object] = []
    creation = creation_of({}, done, unit=unit, rdt="groups")
    creation._removal = "cgroups"
    monkeypatch.setattr(create_steps, "attach", lambda *_: done.append("attach"))
    monkeypatch.setattr(intel_rdt_groups, "enter", lambda *given: done.append(given[:2]))
    creation._enter_cgroup()
    assert done == ["create"] * bool(unit) + ["attach", "apply", ("groups", 71)]
    assert creation._prepared.cgroup.first_pid == 71
    assert creation._removal is None


@pytest.mark.parametrize(("name", "cleared"), [(".creating-c1", True), (".deleting-c1", False)])
def test_resctrl_groups_of_a_killed_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, cleared: bool
) -> None:
    """A killed `delete` has removed them: a new container may have groups of the same name."""
    directory = tmp_path / name
    directory.mkdir()
    (directory / "rdt.json").touch()
    found: list[str] = []
    monkeypatch.setattr(intel_rdt_groups, "clear", found.append)
    monkeypatch.setattr(create_steps, "clear_root", lambda directory, log: None)
    create_steps.clear_recorded(str(directory), Log())
    assert found == [str(directory)] * cleared
