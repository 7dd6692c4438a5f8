"""`pause` and `resume`: all processes are frozen, then thawed."""

from __future__ import annotations

import time

import pytest

from tests.support import processes
from tests.support.peers import deviates, judge_by
from tests.support.plugin import MakeBundle, MakeContainer
from tests.support.runtime import Runtime

COUNTS = "while :; do echo tick; sleep 0.01; done"
OWN_WORDS = "has words of its own"


def test_nobody_runs_while_paused(container: MakeContainer, bundle: MakeBundle) -> None:
    one = container(bundle().shell(f"({COUNTS}) & {COUNTS}")).started()
    one.wait_output("tick")
    one.runtime("pause", one.id).silent()
    assert one.status == "paused"
    before = one.output
    time.sleep(0.1)
    assert one.output == before
    one.runtime("resume", one.id).silent()
    assert one.status == "running"
    assert processes.until(lambda: one.output != before)


@deviates(crun="says created")
def test_created_container(container: MakeContainer) -> None:
    """It stays created while paused, and can be started after it is resumed."""
    one = container().created()
    one.runtime("pause", one.id).silent()
    assert one.status == "paused"
    one.start().failed()
    one.runtime("resume", one.id).silent()
    assert one.status == "created"
    one.start().silent()


@deviates(runc="refuses")
def test_what_is_so_already_is_no_error(container: MakeContainer) -> None:
    one = container().started()
    one.runtime("resume", one.id).silent()
    for _ in range(2):
        one.runtime("pause", one.id).silent()
    for _ in range(2):
        one.runtime("resume", one.id).silent()
    assert one.status == "running"


@deviates(crun=OWN_WORDS)
@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_stopped_container(container: MakeContainer, bundle: MakeBundle, verb: str) -> None:
    one = container(bundle("true")).started()
    one.wait()
    one.runtime(verb, one.id).failed(*["container not running"] * (verb == "pause"))


@deviates(crun=OWN_WORDS)
@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_unknown_container(runtime: Runtime, verb: str) -> None:
    runtime(verb, "nobody").failed("does not exist")


@judge_by("ociruntime")
@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_container_without_a_cgroup(
    container: MakeContainer, bundle: MakeBundle, verb: str
) -> None:
    made = bundle()
    del made.linux["resources"]
    made.linux["namespaces"] = [n for n in made.linux["namespaces"] if n["type"] != "cgroup"]
    one = container(made)
    one.runtime = Runtime(one.runtime.path, one.runtime.root, "--cgroup-manager=disabled")
    one.started()
    one.runtime(verb, one.id).failed(f"cannot {verb} container", one.id, "no cgroup")


@deviates(crun="leaves it frozen after a SIGKILL")
@pytest.mark.parametrize("way", [("kill", "KILL"), ("delete", "--force")])
def test_paused_container_can_be_ended(container: MakeContainer, way: tuple[str, str]) -> None:
    one = container().started()
    one.runtime("pause", one.id).silent()
    if way[0] == "kill":
        one.kill(way[1]).silent()
        assert one.wait() == 137
    else:
        one.delete(way[1]).silent()


def test_signal_waits_for_resume(container: MakeContainer, bundle: MakeBundle) -> None:
    script = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done"
    one = container(bundle().shell(script)).started()
    one.wait_output("ready")
    one.runtime("pause", one.id).silent()
    one.kill("TERM").silent()
    assert one.status == "paused"
    one.runtime("resume", one.id).silent()
    assert one.wait() == 9
