"""Concurrent commands on one id: one succeeds, and neither corrupts anything."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence

import pytest

from tests.support import processes
from tests.support.container import Container
from tests.support.fast_path import by_python
from tests.support.peers import deviates, judge_by
from tests.support.plugin import MakeBundle, MakeContainer


def at_once(one: Container, *commands: Sequence[str]) -> list[int]:
    """Start all commands, wait for all; return the exit statuses in order."""
    started = [one.runtime.popen(*command) for command in commands]
    try:
        return [process.wait(20) for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.mark.parametrize("attempt", range(3))
@deviates(runc="1.1: all may lose")
def test_one_create_wins(container: MakeContainer, bundle: MakeBundle, attempt: int) -> None:
    one = container(bundle().save())
    create = ("create", "--bundle", str(one.bundle.path), one.id)
    statuses = at_once(one, *[create] * 6)
    one.exists = True
    assert sorted(statuses) == [0, 1, 1, 1, 1, 1]
    assert one.status == "created"
    one.start().silent()
    assert one.status == "running"
    # The first command of all makes the interpreter's snapshot in the background.
    assert processes.until(lambda: len(processes.descendants()) == 1)


@pytest.mark.parametrize("attempt", range(3))
@deviates(crun="both succeed", runc="the second may wait for ever")
def test_one_start_wins(container: MakeContainer, bundle: MakeBundle, attempt: int) -> None:
    one = container(bundle().shell("echo once; exec sleep 100")).created()
    statuses = at_once(one, *[("start", one.id)] * 4)
    assert sorted(statuses) == [0, 1, 1, 1]
    one.wait_output("once")
    assert one.output.count("once") == 1
    assert one.status == "running"


@pytest.mark.parametrize("attempt", range(3))
def test_start_against_kill(container: MakeContainer, attempt: int) -> None:
    """Whichever comes first, the container ends up stopped and can be deleted."""
    one = container().created()
    _, killed = at_once(one, ("start", one.id), ("kill", one.id, "KILL"))
    assert killed == 0
    assert one.wait() == 137
    assert one.status == "stopped"
    one.delete().silent()


@pytest.mark.parametrize("attempt", range(3))
@deviates(runc="may leave its state file to whom comes second")
def test_deletes_at_once(container: MakeContainer, attempt: int) -> None:
    one = container().started()
    statuses = at_once(one, *[("delete", "--force", one.id)] * 4)
    assert statuses == [0, 0, 0, 0]
    one.exists = False
    assert one.runtime("state", one.id).status == 1


@pytest.mark.parametrize("attempt", range(3))
def test_state_during_a_life(container: MakeContainer, attempt: int) -> None:
    """Called continuously, it prints a complete document or does not know the id."""
    one = container()
    one.bundle.save()
    creating = one.runtime.popen("create", "--bundle", str(one.bundle.path), one.id)
    seen = set()
    while creating.poll() is None:
        result = one.runtime("state", one.id)
        seen.add(result.status)
        if result.status == 0:
            assert '"status": "creat' in result.out, result
            assert result.err == ""
        else:
            assert "not exist" in result.err or one.runtime.kind == "crun", result
    assert creating.wait() == 0
    one.exists = True
    assert seen <= {0, 1}
    assert one.status == "created"


def test_delete_against_create(container: MakeContainer, bundle: MakeBundle) -> None:
    """A forced delete in the middle of a create leaves no container, or a complete one."""
    one = container(bundle().save())
    create = ("create", "--bundle", str(one.bundle.path), one.id)
    for _ in range(5):
        first, second = at_once(one, create, ("delete", "--force", one.id))
        assert second in (0, 1)
        known = one.runtime("state", one.id)
        assert known.status == 0 or first != 0 or second == 0
        one.runtime("delete", "--force", one.id).ok()


def test_many_containers_at_once(container: MakeContainer, bundle: MakeBundle) -> None:
    made = [container() for _ in range(6)]
    commands: list[subprocess.Popen[bytes]] = []
    for one in made:
        one.bundle.save()
        arguments = ["--bundle", str(one.bundle.path), "--pid-file", str(one.pid_file), one.id]
        commands.append(one.runtime.popen("create", *arguments))
    assert [command.wait(60) for command in commands] == [0] * 6
    for one in made:
        one.exists = True
    commands = [one.runtime.popen("start", one.id) for one in made]
    assert [command.wait(60) for command in commands] == [0] * 6
    assert {one.status for one in made} == {"running"}
    commands = [one.runtime.popen("delete", "--force", one.id) for one in made]
    assert [command.wait(60) for command in commands] == [0] * 6
    for one in made:
        one.exists = False


@judge_by("ociruntime")
def test_state_of_a_dying_container(container: MakeContainer) -> None:
    """An init that has closed its gate but is not a zombie yet is not running."""
    one = container().created()
    inside = subprocess.Popen(["nsenter", "--target", str(one.pid), "--pid", "sleep", "100"])
    try:
        assert processes.until(lambda: bool(processes.descendants(inside.pid)))
        # While nobody reaps its sleep, the namespace's init cannot become a zombie.
        inside.send_signal(signal.SIGSTOP)
        assert processes.until(lambda: processes.state(inside.pid) == "T")
        one.kill("KILL").silent()
        assert processes.until(lambda: not os.path.exists(f"/proc/{one.pid}/exe"))
        assert processes.alive(one.pid)
        assert by_python(one.runtime)("state", one.id).ok().out == one.runtime("state", one.id).out
        assert one.status == "stopped"
    finally:
        inside.kill()
        inside.wait()
        processes.reap_orphans()  # the sleep, and with it the init
    one.delete().silent()
