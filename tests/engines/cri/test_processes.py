"""The process of a container: its environment and arguments, and how it is stopped."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.engines.cri.client import Cri
from tests.engines.cri.conftest import Both
from tests.engines.cri.observe import facts
from tests.engines.cri.pod import EXITED, RUNNING, Pod
from tests.engines.scripts import WAITS_FOR_TERM
from tests.support import processes


def test_directory_and_environment(both: Both) -> None:
    """A missing working directory is created; the last of two variables counts."""
    words = [("ONE", "1"), ("TWO", "a b\nc"), ("ONE", "2"), ("EMPTY", "")]
    envs = [{"key": key, "value": value} for key, value in words]

    def look(pod: Pod) -> dict[str, Any]:
        found = facts(pod, working_dir="/new/place", envs=envs)
        # runc 1.1 leaves a variable where it came first, runc 1.2 where it came last.
        found["env"].sort()
        one = pod.run("one", "sleep", "1000", working_dir="/new/place", envs=envs)
        return found | {"exec": pod.shell(one, "pwd; echo $ONE; stat -c '%A %u:%g' /new/place")}

    seen = both(look)
    assert seen["cwd"] == "/new/place"
    assert "TWO=a b\nc" in seen["env"]
    assert seen["exec"] == "/new/place\n2\ndrwxr-xr-x 0:0\n"


def test_many_arguments(both: Both) -> None:
    """Long, empty and thousands of arguments arrive unchanged."""
    words = ["a" * 100_000, "", " ", "ä\n'\"\\", *map(str, range(5000))]
    script = 'for word; do printf "%s\\0" "$word"; done | md5sum'

    def look(pod: Pod) -> list[str]:
        made = pod.output("made", "sh", "-c", script, "sh", *words)
        one = pod.run("one", "sleep", "1000")
        return [made, pod.execute(one, "sh", "-c", script, "sh", *words)[1].strip()]

    made, executed = both(look)
    assert made == executed


def test_stop(cri_host: Cri, both: Both) -> None:
    """TERM, the grace period, KILL; also repeatedly, and for a container that was never started."""

    def look(pod: Pod) -> list[tuple[int, str]]:
        polite = pod.run("polite", "sh", "-c", WAITS_FOR_TERM)
        deaf = pod.run("deaf", "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done")
        created = pod.create("created", "sleep", "1000")
        for name in ("polite", "deaf"):
            assert processes.until(lambda name=name: pod.log(name) == ["stdout ready"])  # type: ignore[misc]
        cri_host.StopContainer(container_id=polite, timeout=30)
        began = time.monotonic()
        cri_host.StopContainer(container_id=deaf, timeout=1)
        assert time.monotonic() - began >= 1
        for container in (polite, deaf):
            cri_host.StopContainer(container_id=container, timeout=1)
        cri_host.RemoveContainer(container_id=created)
        found = [pod.await_state(one, EXITED) for one in (polite, deaf)]
        return [(one.exit_code, one.reason) for one in found]

    assert both(look) == [(3, "Error"), (137, "Error")]


def test_orphans_and_zombies(both: Both) -> None:
    """The container's init is its own program: it adopts orphans, which end with it."""

    def look(pod: Pod) -> str:
        script = "(sleep 1001 & sleep 1002 &) ; (true &) ; echo ready; exec sleep 1003"
        one = pod.run("one", "sh", "-c", script)
        assert processes.until(lambda: pod.log("one") == ["stdout ready"])
        pid = pod.cri.pid(one)
        below = processes.descendants(pid)
        seen = pod.shell(one, "ps -o args | grep [s]leep | sort")
        pod.cri.StopContainer(container_id=one, timeout=0)
        assert processes.until(lambda: not any(map(processes.alive, below)))
        return seen

    assert both(look) == "sleep 1001\nsleep 1002\nsleep 1003\n"


def test_removal_of_a_container_at_work(cri_host: Cri, both: Both) -> None:
    """RemoveContainer kills it, also while an exec process runs in it."""

    def look(pod: Pod) -> int:
        one = pod.run("one", "sh", "-c", "sleep 1001 & exec sleep 1002")
        pid = cri_host.pid(one)
        pod.execute(one, "sh", "-c", "sleep 1003 >/dev/null 2>&1 &")
        below = processes.descendants(pid)
        assert pod.status(one).state == RUNNING
        cri_host.RemoveContainer(container_id=one)
        with pytest.raises(cri_host.Error, match="not found"):
            pod.status(one)
        return sum(map(processes.alive, {pid, *below}))

    assert both(look) == 0
